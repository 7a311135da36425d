/* TFLite's long short-term memory: bytes in and out, a cell of 16 bits, gates in units of 2^-15. */
#include "kernels.h"

#include <string.h>

enum { GATE_INPUT, GATE_FORGET, GATE_CELL, GATE_OUTPUT, GATES };

static int32_t clamped(int32_t value, int32_t lowest, int32_t highest)
{
    return value < lowest ? lowest : value > highest ? highest : value;
}

static int32_t within_16_bits(int32_t value)
{
    return clamped(value, INT16_MIN, INT16_MAX);
}

static int32_t rescaled(const struct rescaling *by, int32_t value)
{
    return rescale(value, by->multiplier, by->shift);
}

/* Between two entries of sigmoid(i / 24), 2^fraction_bits apart; from entry 255 on `most`. */
static int32_t interpolated(const uint16_t *sigmoid, int32_t x, int32_t fraction_bits, int32_t most)
{
    int32_t entry = x >> fraction_bits, fraction = x & ((1 << fraction_bits) - 1);
    if (entry >= 255)
        return most;
    return ((int32_t)sigmoid[entry] << fraction_bits) + fraction * (sigmoid[entry + 1] - sigmoid[entry]);
}

/* The sigmoid of x in units of 2^-12, in units of 2^-15. */
static int32_t sigmoid_of(const uint16_t *sigmoid, int32_t x)
{
    int32_t scaled = 3 * x;
    int32_t found = interpolated(sigmoid, scaled < 0 ? -scaled : scaled, 9, 0x7FFF << 10);
    return ((scaled < 0 ? (1 << 25) - 1 - found : found) + (1 << 9)) >> 10;
}

/* The hyperbolic tangent of x in units of 2^(shift - 12), in units of 2^-15: 2 sigmoid(2 x) - 1. */
static int32_t tanh_of(const uint16_t *sigmoid, int32_t x, int32_t shift)
{
    int32_t scaled = shift < 0 ? (3 * x + (1 << (-shift - 1))) >> -shift : x * (3 << shift);
    int32_t found = interpolated(sigmoid, scaled < 0 ? -scaled : scaled, 8, 0xFFFF << 8) - (1 << 23);
    return ((scaled < 0 ? -found - 1 : found) + (1 << 7)) >> 8;
}

/* The sum before a gate's curve: of the inputs and of what the units said before, each cut to 16 bits. */
static int32_t before_gate(const struct lstm *l, int32_t gate, int32_t unit, const int8_t *input, const int8_t *before)
{
    int32_t row = gate * l->units + unit, from_input = l->biases[row], from_units = 0;
    for (int32_t k = 0; k < l->inputs; k++)
        from_input += (input[k] - l->input_zero) * l->input_weights[row * l->inputs + k];
    for (int32_t k = 0; k < l->units; k++)
        from_units += (before[k] - l->hidden_zero) * l->unit_weights[row * l->units + k];
    return within_16_bits(within_16_bits(rescaled(&l->of_input[gate], from_input)) +
                          within_16_bits(rescaled(&l->of_units[gate], from_units)));
}

/* What a unit says after a step, whose cell is brought on. */
static int8_t stepped(const struct lstm *l, int32_t unit, const int8_t *input, const int8_t *before, int16_t *cell)
{
    int32_t gates[GATES];
    for (int32_t gate = 0; gate < GATES; gate++) {
        int32_t sum = before_gate(l, gate, unit, input, before);
        gates[gate] = gate == GATE_CELL ? tanh_of(l->sigmoid, sum, 0) : sigmoid_of(l->sigmoid, sum);
    }
    int32_t kept = within_16_bits(rescaled(&l->kept, gates[GATE_FORGET] * *cell));
    int32_t added = within_16_bits(rescaled(&l->added, gates[GATE_INPUT] * gates[GATE_CELL]));
    int32_t next = within_16_bits(kept + added);
    if (l->cell_clip > 0)
        next = clamped(next, -l->cell_clip, l->cell_clip);
    *cell = (int16_t)next;
    int32_t said = rescaled(&l->said, tanh_of(l->sigmoid, next, l->cell_shift) * gates[GATE_OUTPUT]);
    return (int8_t)clamped(said + l->said.zero, INT8_MIN, INT8_MAX);
}

void lstm_s8(const struct lstm *l, const int8_t *input, int8_t *hidden, int16_t *cell, int8_t *output)
{
    for (int32_t n = 0; n < l->batch; n++)
        for (int32_t t = 0; t < l->steps; t++) {
            const int8_t *from = input + n * l->input_batch + t * l->input_step;
            int8_t *to = output + n * l->output_batch + t * l->output_step;
            for (int32_t unit = 0; unit < l->units; unit++)
                to[unit] = stepped(l, unit, from, hidden + n * l->units, cell + n * l->units + unit);
            memcpy(hidden + n * l->units, to, (size_t)l->units);
        }
}

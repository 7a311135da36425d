/* The loops of a convolution and a transposed convolution of one type; convolution.c includes them for each type.

   SUFFIX ends the functions' names. ELEMENT, WEIGHT and SUM are the types of maps, weights and sums. SETTINGS is the type
   of `by`, PRODUCT(a, b) a factor of the input times a weight, and FINISHED(by, o, sum) the output of channel o. */
#define JOINED(name, suffix) name##_##suffix
#define NAMED(name, suffix) JOINED(name, suffix)

static void NAMED(convolved, SUFFIX)(const struct window *w, const SETTINGS *by, const ELEMENT *input,
                                     const WEIGHT *weight, const SUM *bias, ELEMENT *output, meeting *meets)
{
    for (int32_t n = 0; n < w->batch; n++)
        for (int32_t o = 0; o < w->groups * w->outputs; o++) {
            int32_t group = o / w->outputs;
            const ELEMENT *maps = input + n * w->input.batch + group * w->inputs * w->input.channel;
            const WEIGHT *kernel = weight + group * w->weight.group + o % w->outputs * w->weight.output;
            ELEMENT *map = output + n * w->output.batch + o * w->output.channel;
            for (int32_t y = 0; y < w->rows.output; y++)
                for (int32_t x = 0; x < w->columns.output; x++) {
                    SUM sum = 0;
                    for (int32_t i = 0; i < w->rows.kernel; i++)
                        for (int32_t j = 0; j < w->columns.kernel; j++) {
                            int32_t row = meets(&w->rows, y, i), column = meets(&w->columns, x, j);
                            if (row < 0 || column < 0)
                                continue;
                            const ELEMENT *met = maps + row * w->input.row + column * w->input.column;
                            const WEIGHT *factor = kernel + i * w->weight.row + j * w->weight.column;
                            SUM products = 0;
                            for (int32_t c = 0; c < w->inputs; c++)
                                products += PRODUCT(met[c * w->input.channel], factor[c * w->weight.input]);
                            sum += products;
                        }
                    sum += bias ? bias[o] : 0;
                    map[y * w->output.row + x * w->output.column] = (ELEMENT)FINISHED(by, o, sum);
                }
        }
}

#undef SUFFIX
#undef ELEMENT
#undef SUM
#undef FINISHED
#undef NAMED
#undef JOINED

/* The loops of a convolution and a transposed convolution of one type; convolution.c includes them for each type.

   SUFFIX ends the functions' names. ELEMENT, WEIGHT and SUM are the types of maps, weights and sums. SETTINGS is the type
   of `by`, PRODUCT(a, b) a factor of the input times a weight, and FINISHED(by, o, sum) the output of channel o. */
#define JOINED(name, suffix) name##_##suffix
#define NAMED(name, suffix) JOINED(name, suffix)

static void NAMED(convolved, SUFFIX)(const struct window *w, const SETTINGS *by, IN(ELEMENT) input,
                                     const WEIGHT *weight, const SUM *bias, OUT(ELEMENT) output, meeting *meets)
{
    for (int32_t n = 0; n < w->batch; n++)
        for (int32_t o = 0; o < w->groups * w->outputs; o++) {
            int32_t group = o / w->outputs;
            int32_t maps = n * w->input.batch + group * w->inputs * w->input.channel;
            const WEIGHT *kernel = weight + group * w->weight.group + o % w->outputs * w->weight.output;
            int32_t map = n * w->output.batch + o * w->output.channel;
            for (int32_t y = 0; y < w->rows.output; y++)
                for (int32_t x = 0; x < w->columns.output; x++) {
                    SUM sum = 0;
                    for (int32_t i = 0; i < w->rows.kernel; i++)
                        for (int32_t j = 0; j < w->columns.kernel; j++) {
                            int32_t row = meets(&w->rows, y, i), column = meets(&w->columns, x, j);
                            if (row < 0 || column < 0)
                                continue;
                            int32_t at = maps + row * w->input.row + column * w->input.column;
                            int32_t reach = (w->inputs - 1) * w->input.channel + 1;
                            const ELEMENT *met = RUN(ELEMENT, input, at, reach);
                            const WEIGHT *factor = kernel + i * w->weight.row + j * w->weight.column;
                            SUM products = 0;
                            for (int32_t c = 0; c < w->inputs; c++) {
                                int32_t step = c * w->input.channel;
                                ELEMENT value = met ? met[step] : AT(ELEMENT, input, at + step);
                                products += PRODUCT(value, factor[c * w->weight.input]);
                            }
                            sum += products;
                        }
                    sum += bias ? bias[o] : 0;
                    int32_t target = map + y * w->output.row + x * w->output.column;
                    AT(ELEMENT, output, target) = (ELEMENT)FINISHED(by, o, sum);
                }
        }
}

#undef SUFFIX
#undef ELEMENT
#undef SUM
#undef FINISHED
#undef NAMED
#undef JOINED

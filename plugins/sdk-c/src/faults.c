/*
 * Handlers of C faults that would end a component without a message: abort, assert, and the findings of
 * -fsanitize=undefined (a NULL pointer, an index out of bounds, a division by zero, …). Each panics with the line.
 */
#include <stdlib.h>

#include "internal.h"

OPERETTA_NORETURN void abort(void) { operetta_panic_at(NULL, 0, NULL, "abort() was called"); }

OPERETTA_NORETURN void __assert_fail(const char *expression, const char *file, int line, const char *function) {
    operetta_panic_at(file, line, function, "assertion failed: %s", expression);
}

/* The source location and the type of a fault, as in compiler-rt's ubsan_value.h. */
typedef struct {
    const char *file;
    uint32_t line;
    uint32_t column;
} source_location;

typedef struct {
    uint16_t kind;
    uint16_t info;
    char name[];
} type_descriptor;

typedef struct {
    source_location at;
    const type_descriptor *type;
    uint8_t log_alignment;
    uint8_t check;
} type_mismatch;

OPERETTA_NORETURN static void undefined(const source_location *at, const char *what) {
    operetta_panic_at(at->file == NULL ? "?" : at->file, (int)at->line, "the plugin", "%s", what);
}

OPERETTA_NORETURN void __ubsan_handle_type_mismatch_v1_abort(const type_mismatch *data, uintptr_t pointer) {
    operetta_panic_at(data->at.file, (int)data->at.line, "the plugin",
                      pointer == 0 ? "NULL pointer: there is no %s" : "misaligned or too small for %s",
                      data->type->name);
}

/* Defines a handler whose data begins with the source location. The arguments after the data differ by handler. */
#define HANDLER(name, what, ...)                                                                                       \
    OPERETTA_NORETURN void __ubsan_handle_##name(const source_location *at, ##__VA_ARGS__);                            \
    OPERETTA_NORETURN void __ubsan_handle_##name(const source_location *at, ##__VA_ARGS__) { undefined(at, what); }

#define UNUSED __attribute__((unused)) uintptr_t

HANDLER(out_of_bounds_abort, "index out of bounds", UNUSED index)
HANDLER(divrem_overflow_abort, "division by zero, or one that overflows", UNUSED left, UNUSED right)
HANDLER(add_overflow_abort, "an addition overflows", UNUSED left, UNUSED right)
HANDLER(sub_overflow_abort, "a subtraction overflows", UNUSED left, UNUSED right)
HANDLER(mul_overflow_abort, "a multiplication overflows", UNUSED left, UNUSED right)
HANDLER(negate_overflow_abort, "a negation overflows", UNUSED value)
HANDLER(shift_out_of_bounds_abort, "a shift by too many bits", UNUSED left, UNUSED right)
HANDLER(pointer_overflow_abort, "arithmetic on a NULL pointer, or one that overflows", UNUSED base, UNUSED result)
HANDLER(vla_bound_not_positive_abort, "an array's length is not positive", UNUSED bound)
HANDLER(load_invalid_value_abort, "a value that is invalid for its type", UNUSED value)
HANDLER(float_cast_overflow_abort, "a number that its type cannot hold", UNUSED value)
HANDLER(nonnull_arg_abort, "NULL is passed where it is not allowed")
HANDLER(builtin_unreachable, "unreachable code is reached")
HANDLER(missing_return, "a function ends without a return")

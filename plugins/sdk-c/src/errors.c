/* Errors, and the results of a reconcile. */
#include <string.h>

#include "internal.h"

/* The name, HTTP status code and metav1.StatusReason of each variant, in the order of operetta_error_variant. */
static const struct {
    const char *name;
    uint16_t code;
    const char *reason;
} variants[] = {
    {"not-found", 404, "NotFound"},
    {"already-exists", 409, "AlreadyExists"},
    {"conflict", 409, "Conflict"},
    {"invalid", 422, "Invalid"},
    {"bad-request", 400, "BadRequest"},
    {"forbidden", 403, "Forbidden"},
    {"expired", 410, "Expired"},
    {"too-many-requests", 429, "TooManyRequests"},
    {"unavailable", 503, "ServiceUnavailable"},
    {"timed-out", 504, "Timeout"},
    {"other", 500, ""},
};

const char *operetta_error_variant_name(operetta_error_variant variant) { return variants[variant].name; }

bool operetta_is(const operetta_error *error, operetta_error_variant variant) {
    return error != NULL && error->variant == variant;
}

void fail_with(operetta_error **out, operetta_error_variant variant, const char *call, const char *format, ...) {
    if (out == NULL) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    operetta_error *error = operetta_allocate(sizeof *error);
    error->variant = variant;
    error->code = variants[variant].code;
    error->reason = variants[variant].reason;
    error->message = format_text(format, arguments);
    error->call = call;
    va_end(arguments);
    *out = error;
}

const char *operetta_error_text(const operetta_error *error) {
    if (error == NULL) {
        return "no error";
    }
    const char *text = operetta_format("%s: %s", error->call, error->message);
    if (*error->message == '\0') {
        text = operetta_format("%s: %s (%u %s)", error->call, operetta_error_variant_name(error->variant), error->code,
                               error->reason);
    }
    return text;
}

const char *call_name(const char *verb, operetta_kind kind, const char *namespace_, const char *name) {
    bool scoped = namespace_ != NULL && *namespace_ != '\0';
    return operetta_format("%s %s %s%s%s", verb, kind.kind, scoped ? namespace_ : "", scoped ? "/" : "", name);
}

operetta_result operetta_done(void) { return (operetta_result){.kind = OPERETTA_RESULT_DONE}; }

operetta_result operetta_requeue(void) { return (operetta_result){.kind = OPERETTA_RESULT_REQUEUE}; }

operetta_result operetta_requeue_after_ms(uint32_t milliseconds) {
    return (operetta_result){.kind = OPERETTA_RESULT_REQUEUE_AFTER, .after_ms = milliseconds};
}

operetta_result operetta_retry(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    operetta_result result = {.kind = OPERETTA_RESULT_RETRY, .message = format_text(format, arguments)};
    va_end(arguments);
    return result;
}

operetta_result operetta_terminal(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    operetta_result result = {.kind = OPERETTA_RESULT_TERMINAL, .message = format_text(format, arguments)};
    va_end(arguments);
    return result;
}

operetta_result operetta_fail(const operetta_error *error) { return operetta_retry("%s", operetta_error_text(error)); }

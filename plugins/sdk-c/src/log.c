/* The log, Events, the configuration, and panics. */
#include <stdio.h>
#include <string.h>

#include "internal.h"

bool operetta_log_enabled(operetta_level level) { return backend_log_enabled(level); }

void operetta_log(operetta_level level, const operetta_field *fields, const char *format, ...) {
    if (!backend_log_enabled(level)) {
        return;
    }
    size_t count = 0;
    while (fields != NULL && fields[count].name != NULL) {
        if (fields[count].value == NULL) {
            operetta_panic("the log field \"%s\" is NULL", fields[count].name);
        }
        count++;
    }
    va_list arguments;
    va_start(arguments, format);
    backend_log(level, format_text(format, arguments), fields, count);
    va_end(arguments);
}

void operetta_event(const operetta_value *regarding, operetta_event_type type, const char *reason, const char *action,
                    const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    backend_event(operetta_kind_of(regarding), operetta_namespace(regarding), operetta_name(regarding),
                  operetta_uid(regarding), type, reason, action == NULL ? "" : action, format_text(format, arguments));
    va_end(arguments);
}

operetta_value *operetta_config(void) { return value_of_host(backend_config(), "read the configuration"); }

/* Logs a panic and ends the reconcile. Uses no memory of the reconcile, which may be exhausted. A NULL file means that
 * the location is unknown. */
OPERETTA_NORETURN void operetta_panic_at(const char *file, int line, const char *function, const char *format, ...) {
    static bool panicking;
    static char message[1024];
    char why[768];
    const char *name = file == NULL ? NULL : strrchr(file, '/');
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    if (file == NULL) {
        snprintf(message, sizeof message, "operetta_panic: %s", why);
    } else {
        snprintf(message, sizeof message, "operetta_panic: %s at %s:%d in %s", why, name == NULL ? file : name + 1,
                 line, function);
    }
    if (!panicking) {
        panicking = true;
        backend_log(OPERETTA_ERROR, message, NULL, 0);
        panicking = false;
    }
    backend_trap(message);
}

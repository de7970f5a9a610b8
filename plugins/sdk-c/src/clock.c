/* The current time. */
#include <time.h>

#include "internal.h"

const char *operetta_now(void) {
    time_t seconds = time(NULL);
    struct tm utc;
    if (gmtime_r(&seconds, &utc) == NULL) {
        operetta_panic("failed to read the clock");
    }
    return operetta_format("%04d-%02d-%02dT%02d:%02d:%02dZ", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                           utc.tm_hour, utc.tm_min, utc.tm_sec);
}

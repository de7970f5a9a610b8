/*
 * resource.Quantity in canonical form, by apimachinery's rules (pkg/api/resource, CanonicalizeBytes): the largest
 * suffix that leaves no fraction. Values are rounded up to a nano. Only integers from 1024 have a binary suffix.
 */
#include <string.h>

#include "internal.h"

__extension__ typedef __int128 wide;

enum { MOST_DIGITS = 18, FINEST = -9, GREATEST = 18 };

typedef struct {
    bool negative;
    wide digits;
    int exponent; /* the power of 10 */
    int binary;   /* the power of 1024 */
    char format;  /* d: decimal suffix, b: binary suffix, e: exponent */
} quantity;

static const char DECIMAL_SUFFIXES[] = "num\0kMGTPE"; /* 10^-9, 10^-6, … 10^18 */
static const char BINARY_SUFFIXES[] = "KMGTPE";

static bool read_suffix(const char *at, quantity *out) {
    out->format = 'd';
    if (*at == '\0') {
        return true;
    }
    const char *binary = strchr(BINARY_SUFFIXES, *at);
    if (binary != NULL && strcmp(at + 1, "i") == 0) {
        out->format = 'b';
        out->binary = (int)(binary - BINARY_SUFFIXES) + 1;
        return true;
    }
    const char *decimal = memchr(DECIMAL_SUFFIXES, *at, sizeof DECIMAL_SUFFIXES - 1);
    if (decimal != NULL && at[1] == '\0') {
        out->exponent += 3 * ((int)(decimal - DECIMAL_SUFFIXES) - 3);
        return true;
    }
    if (*at != 'e' && *at != 'E') {
        return false;
    }
    out->format = 'e';
    at++;
    int sign = *at == '-' ? -1 : 1;
    at += *at == '-' || *at == '+';
    int exponent = 0;
    const char *digits = at;
    while (*at >= '0' && *at <= '9' && at - digits < 3) {
        exponent = exponent * 10 + (*at++ - '0');
    }
    out->exponent += sign * exponent;
    return at != digits && *at == '\0';
}

/* Parses a quantity; returns false if the text is not one. A quantity of more than 18 digits has format 0. */
static bool read_quantity(const char *text, quantity *out) {
    int count = 0;
    bool fraction = false;
    bool any = false;
    *out = (quantity){.negative = *text == '-'};
    const char *at = text + (*text == '-' || *text == '+');
    for (; (*at >= '0' && *at <= '9') || (*at == '.' && !fraction); at++) {
        if (*at == '.') {
            fraction = true;
            continue;
        }
        any = true;
        count += count > 0 || *at != '0';
        if (count <= MOST_DIGITS) {
            out->digits = out->digits * 10 + (*at - '0');
            out->exponent -= fraction;
        }
    }
    if (!any || !read_suffix(at, out)) {
        return false;
    }
    out->format = count > MOST_DIGITS ? '\0' : out->format;
    return true;
}

static const char *number_with(const quantity *value, wide number, const char *suffix) {
    if (number > INT64_MAX) {
        return NULL;
    }
    bool negative = value->negative && number != 0;
    return operetta_format("%s%lld%s", negative ? "-" : "", (long long)number, suffix);
}

static const char *decimal(const quantity *value, wide number, int exponent) {
    while (exponent < FINEST) {
        number = number / 10 + (number % 10 != 0);
        exponent++;
    }
    while (number != 0 && number % 10 == 0) {
        number /= 10;
        exponent++;
    }
    for (exponent = number == 0 ? 0 : exponent; exponent % 3 != 0; exponent--) {
        number *= 10;
    }
    if (value->format == 'e') {
        return number_with(value, number, exponent == 0 ? "" : operetta_format("e%d", exponent));
    }
    if (exponent > GREATEST) {
        return NULL;
    }
    char suffix[2] = {DECIMAL_SUFFIXES[exponent / 3 + 3], '\0'};
    return number_with(value, number, suffix);
}

static const char *canonical(const quantity *value) {
    if (value->format != 'b') {
        return value->format == '\0' ? NULL : decimal(value, value->digits, value->exponent);
    }
    wide number = value->digits << 10 * value->binary;
    wide whole = number;
    bool exact = true;
    for (int i = value->exponent; i < 0; i++) {
        exact = exact && whole % 10 == 0;
        whole /= 10;
    }
    if (!exact || whole < 1024) {
        return decimal(value, number, value->exponent);
    }
    int suffix = 0;
    for (; whole % 1024 == 0 && suffix < 6; suffix++) {
        whole /= 1024;
    }
    char text[3] = {suffix == 0 ? '\0' : BINARY_SUFFIXES[suffix - 1], 'i', '\0'};
    return number_with(value, whole, text);
}

const char *operetta_quantity(const operetta_value *value, const char *path, const char *otherwise) {
    const char *text = operetta_text(value, path, NULL);
    quantity parsed;
    if (text == NULL) {
        return otherwise;
    }
    if (!read_quantity(text, &parsed)) {
        operetta_log_warn("%s is \"%s\", which is not a quantity: taken as absent", path, text);
        return otherwise;
    }
    const char *form = canonical(&parsed);
    return form == NULL ? text : form;
}

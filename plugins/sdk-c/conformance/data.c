/* Values that must survive a round trip: unicode, large objects, nulls, 64-bit integers, quantities. */
#include "cases.h"

/* Copies the target's word into a new ConfigMap, and returns it. */
static const char *copied_word(const case_ *c, const char *name, operetta_error **error) {
    operetta_value *map = operetta_get(OPERETTA_CONFIG_MAP, c->namespace_, c->target, error);
    if (map == NULL) {
        return NULL;
    }
    const char *word = operetta_string(map, "data.word", "");
    return operetta_create(config_map(c, name, word), NULL, error) == NULL ? NULL : word;
}

static const char *unicode(const case_ *c, operetta_error **error) { return copied_word(c, "unicode-made", error); }

static const char *big(const case_ *c, operetta_error **error) {
    const char *word = copied_word(c, "big-made", error);
    return word == NULL ? NULL : operetta_format("%zu", strlen(word));
}

/* Returns a Widget's note: `null`, `missing` or the value. */
static const char *note(const operetta_value *widget) {
    switch (operetta_type_at(widget, "spec.note")) {
    case OPERETTA_ABSENT:
        return "missing";
    case OPERETTA_NULL:
        return "null";
    default:
        return operetta_string(widget, "spec.note", "");
    }
}

static const char *null_or_missing(const case_ *c, operetta_error **error) {
    operetta_value *with_null = operetta_get(WIDGET, c->namespace_, "null-note", error);
    if (with_null == NULL) {
        return NULL;
    }
    operetta_value *without = operetta_get(WIDGET, c->namespace_, "no-note", error);
    if (without == NULL) {
        return NULL;
    }
    operetta_value *body = operetta_new_object();
    operetta_set_null(body, "spec.note");
    operetta_patch_request patch = {.body = body};
    operetta_value *patched = operetta_patch(WIDGET, c->namespace_, "with-note", &patch, error);
    return patched == NULL ? NULL : operetta_format("%s %s %s", note(with_null), note(without), note(patched));
}

/* Sets `touched` of the target, a Widget, and returns it as stored. */
static operetta_value *touched(const case_ *c, operetta_error **error) {
    operetta_value *widget = operetta_get(WIDGET, c->namespace_, c->target, error);
    if (widget == NULL) {
        return NULL;
    }
    operetta_set_bool(widget, "spec.touched", true);
    return operetta_update(widget, NULL, error);
}

static const char *int64(const case_ *c, operetta_error **error) {
    operetta_value *widget = touched(c, error);
    return widget == NULL ? NULL : operetta_format("%lld", (long long)operetta_int(widget, "spec.big", 0));
}

static const char *quantity(const case_ *c, operetta_error **error) {
    operetta_value *widget = touched(c, error);
    return widget == NULL ? NULL : operetta_quantity(widget, "spec.size", "");
}

const entry DATA[] = {
    {"unicode", unicode},   {"big", big}, {"null-or-missing", null_or_missing}, {"int64", int64},
    {"quantity", quantity}, {NULL, NULL},
};

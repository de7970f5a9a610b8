/* Label selectors in the API server's syntax: `app=db,tier in (a, b),!old`. */
#include <string.h>

#include "store.h"

static const char *trimmed(const char *from, const char *to) {
    while (from < to && *from == ' ') {
        from++;
    }
    while (to > from && to[-1] == ' ') {
        to--;
    }
    return memory_text(from, (size_t)(to - from));
}

/* Reports whether a list, e.g. `a, b`, contains the value. */
static bool listed(const char *value, const char *list) {
    for (const char *at = list; at != NULL;) {
        const char *comma = strchr(at, ',');
        if (strcmp(trimmed(at, comma == NULL ? at + strlen(at) : comma), value) == 0) {
            return true;
        }
        at = comma == NULL ? NULL : comma + 1;
    }
    return false;
}

static bool requirement(const char *part, const operetta_value *labels, const char **malformed) {
    const char *equals = strchr(part, '=');
    const char *open = strchr(part, '(');
    const char *key = part;
    const char *values = NULL;
    bool negated = *part == '!';
    if (negated) {
        key = trimmed(part + 1, part + strlen(part));
    } else if (equals != NULL) {
        negated = equals > part && equals[-1] == '!';
        key = trimmed(part, equals - negated);
        values = trimmed(equals + 1 + (equals[1] == '='), part + strlen(part));
    } else if (open != NULL) {
        const char *head = trimmed(part, open);
        const char *word = strrchr(head, ' ');
        size_t length = strlen(part);
        negated = word != NULL && strcmp(word, " notin") == 0;
        if (word == NULL || (!negated && strcmp(word, " in") != 0) || part[length - 1] != ')') {
            *malformed = operetta_format("\"%s\": neither `KEY in (…)` nor `KEY notin (…)`", part);
            return false;
        }
        key = trimmed(head, word);
        values = memory_text(open + 1, (size_t)(part + length - 1 - (open + 1)));
    }
    if (*key == '\0' || strpbrk(key, " =!(),") != NULL) {
        *malformed = operetta_format("\"%s\" is not a requirement", part);
        return false;
    }
    const operetta_value *label = operetta_member(labels, key);
    if (label == NULL) {
        return negated;
    }
    return (values == NULL || listed(operetta_string(label, "", ""), values)) != negated;
}

bool selector_matches(const char *selector, const operetta_value *labels, const char **malformed) {
    bool all = true;
    *malformed = NULL;
    for (const char *at = selector; *at != '\0' && *malformed == NULL;) {
        const char *end = at;
        for (int depth = 0; *end != '\0' && (*end != ',' || depth > 0); end++) {
            depth += (*end == '(') - (*end == ')');
        }
        all = requirement(trimmed(at, end), labels, malformed) && all;
        at = *end == ',' ? end + 1 : end;
    }
    return all && *malformed == NULL;
}

/* The conformance suite in C: what its files share. plugins/conformance/README.md says what each case does. */
#ifndef CONFORMANCE_CASES_H
#define CONFORMANCE_CASES_H

#include <string.h>

#include "../operetta.h"

static const operetta_kind WIDGET = {"conformance.operetta.dev/v1", "Widget"};

/* A case: a ConfigMap whose name is a behaviour's id. */
typedef struct {
    operetta_value *object;
    const char *namespace_;
    const char *target; /* data.target, empty if absent */
} case_;

/* Carries out a behaviour: what it saw, or NULL and the error. */
typedef const char *(*behaviour)(const case_ *case_, operetta_error **error);

typedef struct {
    const char *id;
    behaviour run;
} entry;

/* Each ends with an entry without an id. */
extern const entry READS[], WRITES[], ERRORS[], HELPERS[], DATA[];

/* Handles result-* and finalizer, which write no result; false if the case is none of them. */
bool special_case(const case_ *case_, const operetta_request *request, operetta_result *result);

/* `VARIANT CODE REASON`; `no error` if there is none. */
const char *words_of(const operetta_error *error);

/* A ConfigMap of the case's namespace, with data.word unless that is NULL. */
operetta_value *config_map(const case_ *case_, const char *name, const char *word);

/* An argument of the case, from its data. */
const char *argument(const case_ *case_, const char *name);

/* The names of a page's items, joined by commas, after what is there already. */
const char *join_names(const char *before, const operetta_page *page);

#endif

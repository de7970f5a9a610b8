/* The conformance suite in C: shared declarations. plugins/conformance/README.md describes each behaviour. */
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

/* Runs a case. Returns its result, or NULL and the error. */
typedef const char *(*behaviour)(const case_ *case_, operetta_error **error);

typedef struct {
    const char *id;
    behaviour run;
} entry;

/* The behaviours. Each table ends with an entry without an id. */
extern const entry READS[], WRITES[], ERRORS[], HELPERS[], DATA[];

/* Handles result-*, map-* and finalizer, which write no result; false if the case is none of them. */
bool special_case(const case_ *case_, const operetta_request *request, operetta_result *result);

/* Formats an error as `VARIANT CODE REASON`; `no error` if there is none. */
const char *words_of(const operetta_error *error);

/* Returns a new ConfigMap in the case's namespace, with data.word unless `word` is NULL. */
operetta_value *config_map(const case_ *case_, const char *name, const char *word);

/* Returns an argument of the case, from its data. */
const char *argument(const case_ *case_, const char *name);

/* Appends the names of a page's items to `before`, separated by commas. */
const char *join_names(const char *before, const operetta_page *page);

#endif

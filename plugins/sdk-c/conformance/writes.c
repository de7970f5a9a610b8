/* Writes: create, update, patch and delete, with their options. */
#include "cases.h"

static const operetta_kind DEPLOYMENT = {"apps/v1", "Deployment"};

static const char *create(const case_ *c, operetta_error **error) {
    operetta_value *made = operetta_create(config_map(c, "create-made", argument(c, "word")), NULL, error);
    return made == NULL ? NULL : operetta_uid(made);
}

static const char *create_dry_run(const case_ *c, operetta_error **error) {
    operetta_value *made = operetta_create(config_map(c, "dry-made", NULL),
                                           &(operetta_write_options){.dry_run = true}, error);
    return made == NULL ? NULL : operetta_name(made);
}

static const char *create_strict(const case_ *c, operetta_error **error) {
    operetta_value *widget = operetta_new(WIDGET, c->namespace_, "strict-made");
    operetta_set_string(widget, "spec.wrong", "there is no such field");
    operetta_create(widget, &(operetta_write_options){.strict = true}, error);
    return words_of(*error);
}

static const char *create_warning(const case_ *c, operetta_error **error) {
    operetta_value *widget = operetta_new(WIDGET, c->namespace_, "warned-made");
    operetta_set_int(widget, "spec.wrong", 1);
    if (operetta_create(widget, NULL, error) == NULL) {
        return NULL;
    }
    const char *all = "";
    for (const char *const *text = operetta_take_warnings(); *text != NULL; text++) {
        all = operetta_format("%s%s%s", all, *all == '\0' ? "" : "; ", *text);
    }
    return all;
}

static const char *update(const case_ *c, operetta_error **error) {
    operetta_value *map = operetta_get(OPERETTA_CONFIG_MAP, c->namespace_, c->target, error);
    if (map == NULL) {
        return NULL;
    }
    operetta_set_string(map, "data.word", "updated");
    map = operetta_update(map, NULL, error);
    return map == NULL ? NULL : operetta_string(map, "data.word", "");
}

static const char *update_status(const case_ *c, operetta_error **error) {
    operetta_value *widget = operetta_get(WIDGET, c->namespace_, c->target, error);
    if (widget == NULL) {
        return NULL;
    }
    operetta_set_string(widget, "status.phase", "ready");
    operetta_set_bool(widget, "spec.touched", true);
    widget = operetta_update_status(widget, NULL, error);
    return widget == NULL ? NULL
                          : operetta_format("%s %s", operetta_string(widget, "status.phase", ""),
                                            operetta_bool(widget, "spec.touched", false) ? "true" : "false");
}

static operetta_value *patch(const case_ *c, operetta_kind kind, operetta_patch_request request,
                             operetta_error **error) {
    return operetta_patch(kind, c->namespace_, c->target, &request, error);
}

/* Formats an object as `KEY=VALUE`, sorted by key and separated by commas. */
static const char *sorted_members(const operetta_value *object) {
    const char *text = "";
    const char *last = "";
    for (size_t round = 0; round < operetta_count(object, ""); round++) {
        const char *next = NULL;
        for (size_t i = 0; i < operetta_count(object, ""); i++) {
            const char *name = operetta_member_name(object, i);
            if (strcmp(name, last) > 0 && (next == NULL || strcmp(name, next) < 0)) {
                next = name;
            }
        }
        text = operetta_format("%s%s%s=%s", text, round == 0 ? "" : ",", next,
                               operetta_text(operetta_member(object, next), "", ""));
        last = next;
    }
    return text;
}

static const char *patch_merge(const case_ *c, operetta_error **error) {
    operetta_value *body = operetta_new_object();
    operetta_set_string(body, "data.word", "merged");
    operetta_set_null(body, "data.other");
    operetta_value *map = patch(c, OPERETTA_CONFIG_MAP, (operetta_patch_request){.body = body}, error);
    return map == NULL ? NULL : sorted_members(operetta_at(map, "data"));
}

static const char *patch_json(const case_ *c, operetta_error **error) {
    operetta_value *body = operetta_new_array();
    operetta_set_string(body, "[0].op", "replace");
    operetta_set_string(body, "[0].path", "/data/word");
    operetta_set_string(body, "[0].value", "patched");
    operetta_value *map =
        patch(c, OPERETTA_CONFIG_MAP, (operetta_patch_request){.type = OPERETTA_JSON_PATCH, .body = body}, error);
    return map == NULL ? NULL : operetta_string(map, "data.word", "");
}

static const char *patch_apply(const case_ *c, operetta_error **error) {
    operetta_patch_request request = {.type = OPERETTA_APPLY_PATCH, .body = config_map(c, c->target, "applied")};
    patch(c, OPERETTA_CONFIG_MAP, request, error);
    const char *words = words_of(*error);
    request.force = true;
    operetta_value *map = patch(c, OPERETTA_CONFIG_MAP, request, error);
    return map == NULL ? NULL : operetta_format("%s; %s", words, operetta_string(map, "data.word", ""));
}

static const char *patch_scale(const case_ *c, operetta_error **error) {
    operetta_value *body = operetta_new_object();
    operetta_set_int(body, "spec.replicas", 3);
    operetta_value *scale =
        patch(c, DEPLOYMENT, (operetta_patch_request){.body = body, .subresource = "scale"}, error);
    return scale == NULL ? NULL : operetta_text(scale, "spec.replicas", "");
}

static const char *delete_with(const case_ *c, const operetta_delete_options *options, operetta_error **error) {
    return operetta_delete(OPERETTA_CONFIG_MAP, c->namespace_, c->target, options, error) ? "deleted" : NULL;
}

static const char *delete(const case_ *c, operetta_error **error) { return delete_with(c, NULL, error); }

static const char *delete_precondition(const case_ *c, operetta_error **error) {
    delete_with(c, &(operetta_delete_options){.uid = "00000000-0000-0000-0000-000000000000"}, error);
    return words_of(*error);
}

static const char *delete_orphan(const case_ *c, operetta_error **error) {
    return delete_with(c, &(operetta_delete_options){.propagation = OPERETTA_ORPHAN}, error);
}

const entry WRITES[] = {
    {"create", create},
    {"create-dry-run", create_dry_run},
    {"create-strict", create_strict},
    {"create-warning", create_warning},
    {"update", update},
    {"update-status", update_status},
    {"patch-merge", patch_merge},
    {"patch-json", patch_json},
    {"patch-apply", patch_apply},
    {"patch-scale", patch_scale},
    {"delete", delete},
    {"delete-precondition", delete_precondition},
    {"delete-orphan", delete_orphan},
    {NULL, NULL},
};

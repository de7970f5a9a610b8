/* Reads: get and list, cached and live, with their options. */
#include "cases.h"

static const char *word_of(const operetta_value *map) {
    return map == NULL ? NULL : operetta_string(map, "data.word", "");
}

static const char *get_cached(const case_ *c, operetta_error **error) {
    return word_of(operetta_get(OPERETTA_CONFIG_MAP, c->namespace_, c->target, error));
}

static const char *get_live(const case_ *c, operetta_error **error) {
    return word_of(operetta_get_live(OPERETTA_CONFIG_MAP, c->namespace_, c->target, error));
}

static operetta_page *list(const case_ *c, operetta_list_options options, operetta_error **error) {
    options.namespace_ = c->namespace_;
    return operetta_list(OPERETTA_CONFIG_MAP, &options, error);
}

static const char *names(const operetta_page *page) { return page == NULL ? NULL : join_names("", page); }

static const char *list_labels(const case_ *c, operetta_error **error) {
    return names(list(c, (operetta_list_options){.labels = argument(c, "selector")}, error));
}

static const char *list_fields(const case_ *c, operetta_error **error) {
    const char *fields = operetta_format("metadata.name=%s", c->target);
    return names(list(c, (operetta_list_options){.fields = fields}, error));
}

static const char *list_empty(const case_ *c, operetta_error **error) {
    operetta_page *page = list(c, (operetta_list_options){.labels = argument(c, "selector")}, error);
    return page == NULL ? NULL : operetta_format("%zu", page->count);
}

static const char *list_paged(const case_ *c, operetta_error **error) {
    operetta_list_options options = {.labels = argument(c, "selector"), .limit = 2, .live = true};
    const char *all = "";
    unsigned pages = 0;
    do {
        operetta_page *page = list(c, options, error);
        if (page == NULL) {
            return NULL;
        }
        pages++;
        all = join_names(all, page);
        options.continue_token = page->continue_token;
    } while (options.continue_token != NULL);
    return operetta_format("%s %u", all, pages);
}

static const char *list_index(const case_ *c, operetta_error **error) {
    return names(list(c, (operetta_list_options){.index = "colour", .index_value = argument(c, "colour")}, error));
}

static const char *list_label_index(const case_ *c, operetta_error **error) {
    return names(list(c, (operetta_list_options){.index = "app", .index_value = argument(c, "app")}, error));
}

static const char *list_owner_index(const case_ *c, operetta_error **error) {
    return names(list(c, (operetta_list_options){.index = "owner", .index_value = argument(c, "owner")}, error));
}

static const char *get_pruned(const case_ *c, operetta_error **error) {
    operetta_value *map = operetta_get(OPERETTA_CONFIG_MAP, c->namespace_, c->target, error);
    return map == NULL ? NULL : operetta_string(map, "data.pruned", "");
}

static const char *list_owner(const case_ *c, operetta_error **error) {
    return names(list(c, (operetta_list_options){.owner_uid = argument(c, "uid")}, error));
}

static const char *list_projection(const case_ *c, operetta_error **error) {
    static const char *const keep[] = {".data.word", NULL};
    operetta_page *page = list(c, (operetta_list_options){.labels = argument(c, "selector"), .keep = keep}, error);
    const char *all = "";
    bool other = false;
    for (size_t i = 0; page != NULL && i < page->count; i++) {
        all = operetta_format("%s%s%s=%s", all, i == 0 ? "" : ",", operetta_name(page->items[i]),
                              word_of(page->items[i]));
        other = other || operetta_at(page->items[i], "data.other") != NULL;
    }
    return page == NULL ? NULL : operetta_format("%s %s", all, other ? "true" : "false");
}

static const char *read_own_write(const case_ *c, operetta_error **error) {
    const char *name = "read-own-write-made";
    operetta_value *map = config_map(c, name, "1");
    operetta_set_string(map, "metadata.labels.conformance", "made");
    if (operetta_create(map, NULL, error) == NULL) {
        return NULL;
    }
    map = operetta_get(OPERETTA_CONFIG_MAP, c->namespace_, name, error);
    const char *first = word_of(map);
    if (map == NULL) {
        return NULL;
    }
    operetta_set_string(map, "data.word", "2");
    if (operetta_update(map, NULL, error) == NULL) {
        return NULL;
    }
    const char *second = word_of(operetta_get(OPERETTA_CONFIG_MAP, c->namespace_, name, error));
    operetta_page *page = list(c, (operetta_list_options){.labels = "conformance=made"}, error);
    if (second == NULL || page == NULL) {
        return NULL;
    }
    bool listed = false;
    for (size_t i = 0; i < page->count; i++) {
        listed = listed || (strcmp(operetta_name(page->items[i]), name) == 0 && strcmp(word_of(page->items[i]), "2") == 0);
    }
    if (!operetta_delete(OPERETTA_CONFIG_MAP, c->namespace_, name, NULL, error)) {
        return NULL;
    }
    operetta_error *gone = NULL;
    operetta_get(OPERETTA_CONFIG_MAP, c->namespace_, name, &gone);
    return operetta_format("%s %s %s %s", first, second, listed ? "true" : "false",
                           gone == NULL ? "no error" : operetta_error_variant_name(gone->variant));
}

const entry READS[] = {
    {"get-cached", get_cached},         {"get-live", get_live},       {"list-labels", list_labels},
    {"list-fields", list_fields},       {"list-empty", list_empty},   {"list-paged", list_paged},
    {"list-index", list_index},         {"list-owner", list_owner},   {"list-projection", list_projection},
    {"read-own-write", read_own_write}, {"get-pruned", get_pruned},
    {"list-label-index", list_label_index}, {"list-owner-index", list_owner_index}, {NULL, NULL},
};

/* Tests of reads, writes, helpers and results on the test server. */
#include "../operetta_testing.h"

extern operetta_reconciler under_test; /* plugin.c */

static operetta_value *map_with(const char *name, const char *word) {
    operetta_value *map = operetta_new(OPERETTA_CONFIG_MAP, "ns", name);
    operetta_set_string(map, "data.word", word);
    return map;
}

static const operetta_kind FOO = {"example.com/v1", "Foo"};

static operetta_value *foo(const char *name) { return operetta_new(FOO, "ns", name); }

OPERETTA_TEST(manifest_contains_all_declarations) {
    EXPECT_STRING(
        "{\"apiVersion\":\"operetta.dev/v1alpha1\",\"kind\":\"Manifest\",\"controllers\":[{\"name\":\"tested\","
        "\"for\":{\"apiVersion\":\"example.com/v1\",\"kind\":\"Foo\",\"labelSelector\":\"app=x\","
        "\"fieldSelector\":\"metadata.name=a\",\"namespaces\":\"Own\",\"predicates\":[\"GenerationChanged\","
        "\"LabelsChanged\"]},\"owns\":[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\"}],\"watches\":["
        "{\"source\":{\"apiVersion\":\"v1\",\"kind\":\"Secret\"},\"map\":{\"type\":\"SameName\"}},"
        "{\"source\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\"},\"map\":{\"type\":\"Owner\",\"allOwners\":true}},"
        "{\"source\":{\"apiVersion\":\"v1\",\"kind\":\"Service\"},\"map\":{\"type\":\"FieldPath\","
        "\"path\":\".spec.foo\",\"namespacePath\":\".spec.ns\"}},"
        "{\"source\":{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"prune\":[\".binaryData\",\".metadata.annotations\"]},"
        "\"map\":{\"type\":\"Custom\"}}],\"finalizers\":[\"example.com/cleanup\"],\"workers\":4,\"resyncSeconds\":60,"
        "\"rateLimiter\":{\"baseDelayMs\":5,\"maxDelayMs\":1000,\"qps\":10,\"burst\":100}}],"
        "\"indexes\":["
        "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"owner\","
        "\"controller\":{\"apiVersion\":\"example.com/v1\",\"kind\":\"Foo\"}},"
        "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"app\",\"label\":\"app.io/name\"},"
        "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"colour\",\"path\":\".data.colour\"}]}",
        operetta_to_json(operetta_test_manifest()));
}

OPERETTA_TEST(get_of_missing_object_fails_and_find_returns_null) {
    operetta_error *error;
    EXPECT(operetta_get(OPERETTA_CONFIG_MAP, "ns", "a", &error) == NULL);
    EXPECT(operetta_is(error, OPERETTA_NOT_FOUND));
    EXPECT_STRING("get ConfigMap ns/a: configmaps \"a\" not found", operetta_error_text(error));
    EXPECT(operetta_find(OPERETTA_CONFIG_MAP, "ns", "a", &error) == NULL);
    EXPECT(error == NULL);
    operetta_test_fail_next("get", OPERETTA_UNAVAILABLE, "no connection");
    EXPECT(operetta_find(OPERETTA_CONFIG_MAP, "ns", "a", &error) == NULL);
    EXPECT(operetta_is(error, OPERETTA_UNAVAILABLE));
}

OPERETTA_TEST(stale_update_conflicts_and_second_create_already_exists) {
    operetta_error *error;
    operetta_value *first = operetta_create(map_with("a", "1"), NULL, &error);
    operetta_value *stale = operetta_copy(first);
    operetta_set_string(first, "data.word", "2");
    EXPECT(operetta_update(first, NULL, &error) != NULL);
    operetta_set_string(stale, "data.word", "3");
    EXPECT(operetta_update(stale, NULL, &error) == NULL);
    EXPECT(operetta_is(error, OPERETTA_CONFLICT));
    EXPECT(operetta_create(map_with("a", "4"), NULL, &error) == NULL);
    EXPECT(operetta_is(error, OPERETTA_ALREADY_EXISTS));
    EXPECT_STRING("2", operetta_string(operetta_test_object(OPERETTA_CONFIG_MAP, "ns", "a"), "data.word", ""));
}

OPERETTA_TEST(create_or_update_writes_changes_only) {
    operetta_operation_result did;
    operetta_error *error;
    const char *const words[] = {"1", "1", "2"};
    const char *const expected[] = {"created", "unchanged", "updated"};
    for (size_t i = 0; i < 3; i++) {
        operetta_value *map = operetta_get_or_new(OPERETTA_CONFIG_MAP, "ns", "a", &error);
        operetta_set_string(map, "data.word", words[i]);
        EXPECT(operetta_create_or_update(map, &did, &error) != NULL);
        EXPECT_STRING(expected[i], operetta_operation_result_name(did));
    }
    EXPECT_STRING("create ConfigMap ns/a", operetta_test_write(0));
    EXPECT_STRING("update ConfigMap ns/a", operetta_test_write(1));
    EXPECT(operetta_test_write(2) == NULL);
    EXPECT(operetta_create_or_update(map_with("b", "1"), NULL, &error) == NULL);
    EXPECT_STRING("the object does not come from operetta_get_or_new", error->message);
}

OPERETTA_TEST(spec_and_status_are_written_separately) {
    operetta_value *object = foo("a");
    operetta_set_int(object, "spec.n", 1);
    object = operetta_create(object, NULL, NULL);
    operetta_set_string(object, "status.phase", "ready");
    operetta_set_int(object, "spec.n", 2);
    object = operetta_update_status(object, NULL, NULL);
    EXPECT_INT(1, operetta_int(object, "spec.n", 0));
    EXPECT_INT(1, operetta_int(object, "metadata.generation", 0));
    operetta_set_int(object, "spec.n", 3);
    operetta_set_string(object, "status.phase", "lost");
    object = operetta_update(object, NULL, NULL);
    EXPECT_STRING("ready", operetta_string(object, "status.phase", ""));
    EXPECT_INT(2, operetta_int(object, "metadata.generation", 0));
}

OPERETTA_TEST(lists_filter_and_page) {
    operetta_error *error;
    for (int i = 0; i < 5; i++) {
        operetta_value *map = map_with(operetta_format("m%d", i), "x");
        operetta_set_string(map, "metadata.labels.app", i < 3 ? "x" : "y");
        operetta_set_string(map, "data.colour", i % 2 == 0 ? "red" : "blue");
        operetta_test_add(map);
    }
    operetta_test_manifest(); /* declares the index */
    operetta_list_options options = {.labels = "app in (x, z),!old", .limit = 2};
    operetta_page *page = operetta_list(OPERETTA_CONFIG_MAP, &options, &error);
    EXPECT_INT(2, (int64_t)page->count);
    options.continue_token = page->continue_token;
    page = operetta_list(OPERETTA_CONFIG_MAP, &options, &error);
    EXPECT_INT(1, (int64_t)page->count);
    EXPECT(page->continue_token == NULL);
    page = operetta_list(OPERETTA_CONFIG_MAP,
                         &(operetta_list_options){.index = "colour", .index_value = "red"}, &error);
    EXPECT_INT(3, (int64_t)page->count);
    page = operetta_list(OPERETTA_CONFIG_MAP, &(operetta_list_options){.fields = "metadata.name=m1"}, &error);
    EXPECT_INT(1, (int64_t)page->count);
    EXPECT(operetta_list(OPERETTA_CONFIG_MAP, &(operetta_list_options){.labels = "app near x"}, &error) == NULL);
    EXPECT(operetta_is(error, OPERETTA_BAD_REQUEST));
    EXPECT(operetta_list(OPERETTA_CONFIG_MAP, &(operetta_list_options){.index = "size", .index_value = "1"}, &error) ==
           NULL);
    EXPECT(operetta_is(error, OPERETTA_BAD_REQUEST));
}

OPERETTA_TEST(indexes_find_by_label_and_by_controlling_owner) {
    operetta_error *error;
    operetta_value *labelled = map_with("labelled", "x");
    operetta_set_string(labelled, "metadata.labels.app\\.io/name", "web");
    operetta_test_add(labelled);
    operetta_value *owner = foo("web");
    operetta_set_string(owner, "metadata.uid", "u");
    operetta_set_string(owner, "apiVersion", "example.com/v1beta1");
    operetta_value *owned = map_with("owned", "x");
    EXPECT(operetta_set_controller_reference(owner, owned, &error));
    operetta_test_add(owned);
    operetta_test_manifest(); /* declares the indexes */
    const char *const expected[][2] = {{"app", "labelled"}, {"owner", "owned"}};
    for (size_t i = 0; i < 2; i++) {
        operetta_list_options options = {.index = expected[i][0], .index_value = "web"};
        operetta_page *page = operetta_list(OPERETTA_CONFIG_MAP, &options, &error);
        EXPECT_INT(1, (int64_t)page->count);
        EXPECT_STRING(expected[i][1], operetta_name(page->items[0]));
    }
}

OPERETTA_TEST(mapping_function_adds_keys_of_both_states_once) {
    operetta_value *now = map_with("m", "x");
    operetta_value *old = operetta_copy(now);
    operetta_set_string(now, "data.foo", "b");
    operetta_set_string(old, "data.foo", "a");
    EXPECT_STRING("ns/b b", operetta_test_map("tested", now, NULL));
    EXPECT_STRING("ns/b b ns/a a", operetta_test_map("tested", now, old));
    EXPECT_STRING("ns/b b", operetta_test_map("tested", now, now));
    EXPECT_STRING("", operetta_test_map("tested", foo("f"), NULL));
    EXPECT(operetta_test_map("other", now, NULL) == NULL);
    operetta_set_string(now, "data.foo", "panic");
    EXPECT(operetta_test_map("tested", now, NULL) == NULL);
}

OPERETTA_TEST(merge_patch_applies_and_bad_json_patch_is_invalid) {
    operetta_error *error;
    operetta_test_add(map_with("a", "1"));
    operetta_value *merge = operetta_new_object();
    operetta_set_string(merge, "data.other", "2");
    operetta_set_null(merge, "data.word");
    operetta_value *map =
        operetta_patch(OPERETTA_CONFIG_MAP, "ns", "a", &(operetta_patch_request){.body = merge}, &error);
    EXPECT_STRING("{\"other\":\"2\"}", operetta_to_json(operetta_at(map, "data")));
    operetta_value *json = operetta_new_array();
    operetta_set_string(json, "[0].op", "remove");
    operetta_set_string(json, "[0].path", "/data/none");
    operetta_patch_request request = {.type = OPERETTA_JSON_PATCH, .body = json};
    EXPECT(operetta_patch(OPERETTA_CONFIG_MAP, "ns", "a", &request, &error) == NULL);
    EXPECT(operetta_is(error, OPERETTA_INVALID));
    request.body = merge;
    EXPECT(operetta_patch(OPERETTA_CONFIG_MAP, "ns", "a", &request, &error) == NULL);
    EXPECT_STRING("the patch's body must be an array of operations", error->message);
}

OPERETTA_TEST(deleted_object_stays_until_finalizer_is_removed) {
    operetta_error *error;
    operetta_value *object = operetta_create(foo("a"), NULL, NULL);
    EXPECT(operetta_add_finalizer(object, "example.com/cleanup", &error));
    EXPECT(operetta_add_finalizer(object, "example.com/cleanup", &error));
    EXPECT_STRING("patch Foo ns/a", operetta_test_write(1));
    EXPECT(operetta_test_write(2) == NULL);
    EXPECT(operetta_delete(FOO, "ns", "a", NULL, &error));
    object = operetta_get(FOO, "ns", "a", &error);
    EXPECT(operetta_is_being_deleted(object));
    EXPECT(operetta_remove_finalizer(object, "example.com/cleanup", &error));
    EXPECT(operetta_test_object(FOO, "ns", "a") == NULL);
}

OPERETTA_TEST(set_controller_reference_rejects_invalid_owners) {
    operetta_error *error;
    operetta_value *child = map_with("c", "1");
    EXPECT(!operetta_set_controller_reference(foo("a"), child, &error));
    EXPECT_STRING("make Foo a the owner of ConfigMap c: the owner has no uid: an owner must be read from the API server",
                  operetta_error_text(error));
    operetta_value *owner = operetta_create(foo("a"), NULL, NULL);
    EXPECT(operetta_set_controller_reference(owner, child, &error));
    EXPECT(operetta_set_controller_reference(owner, child, &error));
    EXPECT_INT(1, (int64_t)operetta_count(child, "metadata.ownerReferences"));
    EXPECT(operetta_is_controlled_by(child, owner));
    EXPECT(!operetta_set_controller_reference(operetta_create(foo("b"), NULL, NULL), child, &error));
    EXPECT(operetta_is(error, OPERETTA_ALREADY_EXISTS));
    operetta_value *far = operetta_new(OPERETTA_CONFIG_MAP, "other", "c");
    EXPECT(!operetta_set_controller_reference(owner, far, &error));
}

OPERETTA_TEST(delete_with_unmet_precondition_conflicts) {
    operetta_error *error;
    operetta_test_add(map_with("a", "1"));
    EXPECT(!operetta_delete(OPERETTA_CONFIG_MAP, "ns", "a", &(operetta_delete_options){.uid = "other"}, &error));
    EXPECT(operetta_is(error, OPERETTA_CONFLICT));
    EXPECT(operetta_delete(OPERETTA_CONFIG_MAP, "ns", "a", &(operetta_delete_options){.dry_run = true}, &error));
    EXPECT(operetta_test_object(OPERETTA_CONFIG_MAP, "ns", "a") != NULL);
}

static operetta_result panics(const operetta_request *request) {
    (void)request;
    operetta_panic("boom %d", 7);
}

OPERETTA_TEST(panic_is_logged_with_its_line_and_retried) {
    under_test = panics;
    operetta_result result = operetta_test_reconcile("tested", "ns", "a");
    EXPECT_INT(OPERETTA_RESULT_RETRY, result.kind);
    EXPECT(strstr(result.message, "operetta_panic: boom 7 at objects_test.c:") != NULL);
    EXPECT(strstr(operetta_test_log(0), "boom 7") != NULL);
    EXPECT_INT(OPERETTA_RESULT_TERMINAL, operetta_test_reconcile("other", "ns", "a").kind);
}

OPERETTA_TEST_MAIN

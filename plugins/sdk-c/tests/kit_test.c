/* Tests of the test kit: what it sends to the test server, and what it records. */
#include "../operetta_testing.h"

static const operetta_kind WIDGET = {"example.com/v1", "Widget"};

static const char DEPLOYMENT[] =
    "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"namespace\":\"ns\",\"name\":\"web\"},\"spec\":{"
    "\"selector\":{\"matchLabels\":{\"a\":\"b\"}},\"template\":{\"metadata\":{\"labels\":{\"a\":\"b\"}},"
    "\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}}}";

static operetta_value *widget(const char *name) {
    operetta_value *object = operetta_new(WIDGET, "ns", name);
    operetta_set_int(object, "spec.size", 1);
    return object;
}

OPERETTA_TEST(added_object_has_status_and_system_fields) {
    operetta_value *object = widget("a");
    operetta_set_bool(object, "status.ready", true);
    operetta_test_add(object);
    operetta_value *stored = operetta_test_object(WIDGET, "ns", "a");
    EXPECT(*operetta_uid(stored) != '\0');
    EXPECT(*operetta_resource_version(stored) != '\0');
    EXPECT_INT(1, operetta_int(stored, "metadata.generation", 0));
    EXPECT(operetta_bool(stored, "status.ready", false));
    EXPECT_STRING(NULL, operetta_test_write(0));
}

OPERETTA_TEST(added_deleted_object_stays_for_its_finalizer) {
    operetta_error *error;
    operetta_value *object = widget("a");
    operetta_append_string(object, "metadata.finalizers", "example.com/f");
    operetta_set_string(object, "metadata.deletionTimestamp", "2030-01-01T00:00:00Z");
    operetta_test_add(object);
    EXPECT(operetta_is_being_deleted(operetta_test_object(WIDGET, "ns", "a")));
    EXPECT(operetta_remove_finalizer(operetta_get(WIDGET, "ns", "a", &error), "example.com/f", &error));
    EXPECT(operetta_test_object(WIDGET, "ns", "a") == NULL);
}

/* Creates a ConfigMap with a field that it does not have. */
static void create_misspelt(const char *name) {
    operetta_error *error;
    operetta_value *map = operetta_new(OPERETTA_CONFIG_MAP, "ns", name);
    operetta_set_string(map, "wrong.word", "x");
    EXPECT(operetta_create(map, NULL, &error) != NULL);
}

OPERETTA_TEST(warnings_are_taken_once) {
    EXPECT(operetta_take_warnings()[0] == NULL);
    create_misspelt("a");
    create_misspelt("b");
    const char *const *texts = operetta_take_warnings();
    EXPECT_STRING("unknown field \"wrong\"", texts[0]);
    EXPECT_STRING("unknown field \"wrong\"", texts[1]);
    EXPECT_STRING(NULL, texts[2]);
    EXPECT(operetta_take_warnings()[0] == NULL);
}

OPERETTA_TEST(patches_of_each_type_are_applied_and_recorded) {
    operetta_error *error;
    operetta_test_add(widget("a"));
    operetta_value *body = operetta_new_object();
    operetta_set_int(body, "spec.size", 2);
    operetta_patch_request request = {.body = body};
    EXPECT_INT(2, operetta_int(operetta_patch(WIDGET, "ns", "a", &request, &error), "spec.size", 0));
    request.type = OPERETTA_APPLY_PATCH;
    operetta_set_int(body, "spec.size", 3);
    request.options.field_manager = "another";
    EXPECT(operetta_patch(WIDGET, "ns", "a", &request, &error) == NULL);
    EXPECT(operetta_is(error, OPERETTA_CONFLICT));
    EXPECT(error != NULL && error->cause_count == 1);
    request.force = true;
    EXPECT_INT(3, operetta_int(operetta_patch(WIDGET, "ns", "a", &request, &error), "spec.size", 0));
    operetta_value *steps = operetta_new_array();
    operetta_set_string(steps, "[0].op", "replace");
    operetta_set_string(steps, "[0].path", "/spec/size");
    operetta_set_int(steps, "[0].value", 4);
    request = (operetta_patch_request){.type = OPERETTA_JSON_PATCH, .body = steps};
    EXPECT_INT(4, operetta_int(operetta_patch(WIDGET, "ns", "a", &request, &error), "spec.size", 0));
    EXPECT_STRING("patch Widget ns/a", operetta_test_write(2));
    EXPECT_STRING(NULL, operetta_test_write(3));
}

OPERETTA_TEST(scale_subresource_is_patched) {
    operetta_error *error;
    operetta_test_add_json(DEPLOYMENT);
    operetta_value *body = operetta_new_object();
    operetta_set_int(body, "spec.replicas", 3);
    operetta_patch_request request = {.body = body, .subresource = "scale"};
    EXPECT(operetta_patch(OPERETTA_DEPLOYMENT, "ns", "web", &request, &error) != NULL);
    EXPECT_INT(3, operetta_int(operetta_get_live(OPERETTA_DEPLOYMENT, "ns", "web", &error), "spec.replicas", 0));
}

OPERETTA_TEST(rejected_object_names_its_fields) {
    operetta_error *error;
    operetta_value *object = operetta_new(OPERETTA_DEPLOYMENT, "ns", "web");
    EXPECT(operetta_create(object, NULL, &error) == NULL);
    EXPECT(operetta_is(error, OPERETTA_INVALID));
    bool named = false;
    for (size_t i = 0; error != NULL && i < error->cause_count; i++) {
        named = named || strcmp(error->causes[i].field, "spec.selector") == 0;
    }
    EXPECT(named);
    operetta_value *map = operetta_new(OPERETTA_CONFIG_MAP, "ns", "a");
    operetta_set_string(map, "spec.x", "y");
    EXPECT(operetta_create(map, &(operetta_write_options){.strict = true}, &error) == NULL);
    EXPECT(operetta_is(error, OPERETTA_BAD_REQUEST));
    EXPECT(operetta_get(WIDGET, "ns", "a", &error) == NULL);
    EXPECT(operetta_is(error, OPERETTA_NOT_FOUND));
    EXPECT_STRING(NULL, operetta_test_write(0));
}

OPERETTA_TEST(dry_runs_change_and_record_nothing) {
    operetta_error *error;
    operetta_test_add(widget("a"));
    EXPECT(operetta_create(widget("b"), &(operetta_write_options){.dry_run = true}, &error) != NULL);
    EXPECT(operetta_delete(WIDGET, "ns", "a", &(operetta_delete_options){.dry_run = true}, &error));
    EXPECT(operetta_test_object(WIDGET, "ns", "a") != NULL);
    EXPECT(operetta_test_object(WIDGET, "ns", "b") == NULL);
    EXPECT_STRING(NULL, operetta_test_write(0));
}

OPERETTA_TEST(generated_name_is_recorded) {
    operetta_error *error;
    operetta_value *object = widget("");
    operetta_remove(object, "metadata.name");
    operetta_set_string(object, "metadata.generateName", "w-");
    const operetta_value *stored = operetta_create(object, NULL, &error);
    EXPECT(strncmp(operetta_name(stored), "w-", 2) == 0);
    EXPECT_STRING(operetta_format("create Widget ns/%s", operetta_name(stored)), operetta_test_write(0));
}

OPERETTA_TEST(defined_kinds_have_their_scope_and_status) {
    operetta_error *error;
    operetta_kind mouse = {"example.com/v1", "Mouse"};
    operetta_test_define(mouse, "mice", false, true);
    operetta_test_without_status(WIDGET);
    EXPECT(operetta_create(operetta_new(mouse, NULL, "m"), NULL, &error) != NULL);
    EXPECT_STRING("create Mouse m", operetta_test_write(0));
    EXPECT_INT(200, operetta_raw(&(operetta_raw_request){.method = "GET", .path = "/apis/example.com/v1/mice/m"})->status);
    operetta_value *object = widget("a");
    operetta_set_bool(object, "status.ready", true);
    object = operetta_create(object, NULL, &error);
    EXPECT(operetta_bool(object, "status.ready", false));
    EXPECT(operetta_update_status(object, NULL, &error) == NULL);
    EXPECT(operetta_is(error, OPERETTA_BAD_REQUEST));
}

OPERETTA_TEST(raw_requests_reach_the_api_server) {
    operetta_raw_request request = {.method = "POST", .path = "/api/v1/namespaces/ns/configmaps", .query = "fieldManager=x",
                                    .body = "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"}}"};
    operetta_test_add(widget("a")); /* makes the namespace */
    EXPECT_INT(201, operetta_raw(&request)->status);
    request = (operetta_raw_request){.method = "GET", .path = "/api/v1/namespaces/ns/configmaps/a", .cached = true};
    const operetta_raw_response *response = operetta_raw(&request);
    EXPECT_INT(200, response->status);
    EXPECT_STRING("application/json", response->content_type);
    EXPECT(strstr(response->body, "\"name\":\"a\"") != NULL);
    request.path = "/api/v1/namespaces/ns/configmaps/none";
    EXPECT_INT(404, operetta_raw(&request)->status);
}

OPERETTA_TEST(list_keeps_projected_fields_and_orders_by_name) {
    operetta_error *error;
    static const char *const keep[] = {".spec.size", NULL};
    operetta_test_add(widget("b"));
    operetta_test_add(widget("a"));
    operetta_value *owned = operetta_new(OPERETTA_CONFIG_MAP, "ns", "owned");
    operetta_value *owner = operetta_test_object(WIDGET, "ns", "a");
    EXPECT(operetta_set_controller_reference(owner, owned, &error));
    operetta_test_add(owned);
    operetta_page *page = operetta_list(WIDGET, &(operetta_list_options){.namespace_ = "ns", .keep = keep}, &error);
    EXPECT_INT(2, (int64_t)page->count);
    EXPECT_STRING("a", operetta_name(page->items[0]));
    EXPECT_INT(1, operetta_int(page->items[0], "spec.size", 0));
    EXPECT(operetta_at(page->items[0], "metadata.generation") == NULL);
    page = operetta_list(OPERETTA_CONFIG_MAP, &(operetta_list_options){.owner_uid = operetta_uid(owner)}, &error);
    EXPECT_INT(1, (int64_t)page->count);
    EXPECT(operetta_list(WIDGET, &(operetta_list_options){.owner_uid = "u", .live = true}, &error) == NULL);
    EXPECT(operetta_is(error, OPERETTA_BAD_REQUEST));
}

OPERETTA_TEST(planned_faults_fail_the_next_call_of_their_verb) {
    operetta_error *error;
    operetta_test_add(widget("a"));
    operetta_test_fail_next("delete", OPERETTA_TOO_MANY_REQUESTS, "slow");
    operetta_test_fail_next("list", OPERETTA_EXPIRED, "too old");
    EXPECT(operetta_list(WIDGET, NULL, &error) == NULL);
    EXPECT(operetta_is(error, OPERETTA_EXPIRED));
    EXPECT(operetta_list(WIDGET, NULL, &error) != NULL);
    EXPECT(!operetta_delete(WIDGET, "ns", "a", NULL, &error));
    EXPECT(operetta_is(error, OPERETTA_TOO_MANY_REQUESTS));
    EXPECT(operetta_delete(WIDGET, "ns", "a", &(operetta_delete_options){.propagation = OPERETTA_ORPHAN}, &error));
}

OPERETTA_TEST(reset_starts_an_empty_cluster) {
    operetta_test_add(widget("a"));
    EXPECT(strstr(operetta_test_dump(), "Widget") != NULL);
    operetta_test_reset();
    EXPECT_STRING("", operetta_test_dump());
    EXPECT(operetta_test_object(WIDGET, "ns", "a") == NULL);
}

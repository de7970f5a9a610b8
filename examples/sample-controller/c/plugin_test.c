/* Tests of the sample-controller with the SDK's test kit. */
#include "operetta_testing.h"

static const operetta_kind FOO = {"samplecontroller.k8s.io/v1alpha1", "Foo"};

static const char SYNCED[] = "Normal Synced Sync: Foo synced successfully";

/* Adds a Foo with a deploymentName; 0 replicas leave the field out. */
static void add_foo(const char *deployment, int64_t replicas) {
    operetta_value *foo = operetta_new(FOO, "ns", "example-foo");
    operetta_set_string(foo, "spec.deploymentName", deployment);
    if (replicas > 0) {
        operetta_set_int(foo, "spec.replicas", replicas);
    }
    operetta_test_add(foo);
}

static operetta_result sync(void) { return operetta_test_reconcile("foo", "ns", "example-foo"); }

static operetta_value *foo(void) { return operetta_test_object(FOO, "ns", "example-foo"); }

static operetta_value *deployment(void) { return operetta_test_object(OPERETTA_DEPLOYMENT, "ns", "example-foo"); }

OPERETTA_TEST(foo_gets_deployment_and_second_sync_writes_nothing) {
    static const char labels[] = "{\"app\":\"nginx\",\"controller\":\"example-foo\"}";
    add_foo("example-foo", 2);
    EXPECT_INT(OPERETTA_RESULT_DONE, sync().kind);
    EXPECT_INT(OPERETTA_RESULT_DONE, sync().kind);
    EXPECT_STRING("create Deployment ns/example-foo", operetta_test_write(0));
    EXPECT_STRING("update-status Foo ns/example-foo", operetta_test_write(1));
    EXPECT_STRING(NULL, operetta_test_write(2));
    EXPECT_STRING(SYNCED, operetta_test_event(0));
    EXPECT_STRING(SYNCED, operetta_test_event(1));
    EXPECT(operetta_is_controlled_by(deployment(), foo()));
    EXPECT(operetta_bool(deployment(), "metadata.ownerReferences[0].blockOwnerDeletion", false));
    EXPECT_STRING(labels, operetta_to_json(operetta_at(deployment(), "spec.selector.matchLabels")));
    EXPECT_STRING(labels, operetta_to_json(operetta_at(deployment(), "spec.template.metadata.labels")));
    EXPECT_STRING("nginx:latest", operetta_string(deployment(), "spec.template.spec.containers[0].image", ""));
    EXPECT_INT(2, operetta_int(deployment(), "spec.replicas", 0));
}

OPERETTA_TEST(deleted_foo_is_done) {
    EXPECT_INT(OPERETTA_RESULT_DONE, sync().kind);
    EXPECT_STRING(NULL, operetta_test_write(0));
    EXPECT_STRING(NULL, operetta_test_event(0));
}

OPERETTA_TEST(empty_deployment_name_is_rejected_by_crd_yaml) {
    operetta_error *error;
    operetta_value *foo = operetta_new(FOO, "ns", "example-foo");
    operetta_set_string(foo, "spec.deploymentName", "");
    EXPECT(operetta_create(foo, NULL, &error) == NULL);
    EXPECT(operetta_is(error, OPERETTA_INVALID));
    EXPECT(error != NULL && error->cause_count == 1 && strcmp(error->causes[0].field, "spec.deploymentName") == 0);
}

OPERETTA_TEST(deployment_of_another_owner_is_kept_with_warning) {
    static const char message[] = "Resource \"example-foo\" already exists and is not managed by Foo";
    operetta_test_add_json(
        "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"namespace\":\"ns\",\"name\":\"example-foo\"},"
        "\"spec\":{\"selector\":{\"matchLabels\":{\"app\":\"theirs\"}},\"template\":{\"metadata\":{\"labels\":{"
        "\"app\":\"theirs\"}},\"spec\":{\"containers\":[{\"name\":\"theirs\",\"image\":\"nginx\"}]}}}}");
    add_foo("example-foo", 2);
    operetta_result result = sync();
    EXPECT_INT(OPERETTA_RESULT_RETRY, result.kind);
    EXPECT_STRING(message, result.message);
    EXPECT_STRING(operetta_format("Warning ErrResourceExists Sync: %s", message), operetta_test_event(0));
    EXPECT_STRING(NULL, operetta_test_write(0));
}

OPERETTA_TEST(changed_replicas_are_restored_and_other_fields_kept) {
    add_foo("example-foo", 2);
    sync();
    operetta_value *changed = deployment();
    operetta_set_int(changed, "spec.replicas", 5);
    operetta_set_bool(changed, "spec.paused", true);
    EXPECT(operetta_update(changed, NULL, NULL) != NULL);
    EXPECT_INT(OPERETTA_RESULT_DONE, sync().kind);
    EXPECT_INT(2, operetta_int(deployment(), "spec.replicas", 0));
    EXPECT(operetta_bool(deployment(), "spec.paused", false));
}

OPERETTA_TEST(foo_without_replicas_keeps_deployment_replicas) {
    add_foo("example-foo", 0);
    sync();
    operetta_value *changed = deployment();
    operetta_set_int(changed, "spec.replicas", 7);
    EXPECT(operetta_update(changed, NULL, NULL) != NULL);
    EXPECT_INT(OPERETTA_RESULT_DONE, sync().kind);
    EXPECT_INT(7, operetta_int(deployment(), "spec.replicas", 0));
}

OPERETTA_TEST(status_follows_deployment) {
    add_foo("example-foo", 2);
    sync();
    operetta_value *available = deployment();
    operetta_set_int(available, "status.replicas", 2);
    operetta_set_int(available, "status.readyReplicas", 2);
    operetta_set_int(available, "status.availableReplicas", 2);
    EXPECT(operetta_update_status(available, NULL, NULL) != NULL);
    EXPECT_INT(OPERETTA_RESULT_DONE, sync().kind);
    EXPECT_INT(2, operetta_int(foo(), "status.availableReplicas", 0));
    EXPECT_INT(1, operetta_int(foo(), "metadata.generation", 0));
}

OPERETTA_TEST(deleted_deployment_is_created_again) {
    add_foo("example-foo", 2);
    sync();
    EXPECT(operetta_delete(OPERETTA_DEPLOYMENT, "ns", "example-foo", NULL, NULL));
    EXPECT_INT(OPERETTA_RESULT_DONE, sync().kind);
    EXPECT(deployment() != NULL);
}

OPERETTA_TEST(failing_api_server_is_retried) {
    add_foo("example-foo", 2);
    operetta_test_fail_next("create", OPERETTA_UNAVAILABLE, "etcd is down");
    operetta_result result = sync();
    EXPECT_INT(OPERETTA_RESULT_RETRY, result.kind);
    EXPECT_STRING("create Deployment ns/example-foo: etcd is down", result.message);
    EXPECT_STRING(NULL, operetta_test_event(0));
}

OPERETTA_TEST(unchanged_deployments_do_not_trigger_a_reconcile) {
    EXPECT_STRING("{\"name\":\"foo\",\"for\":{\"apiVersion\":\"samplecontroller.k8s.io/v1alpha1\",\"kind\":\"Foo\","
                  "\"namespaces\":\"Own\"},\"owns\":[{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\","
                  "\"namespaces\":\"Own\",\"predicates\":[\"ResourceVersionChanged\"]}],\"workers\":2}",
                  operetta_to_json(operetta_at(operetta_test_manifest(), "controllers[0]")));
}

OPERETTA_TEST_MAIN

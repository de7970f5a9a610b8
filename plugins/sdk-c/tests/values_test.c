/* Tests of values: paths, setters, comparison, numbers and quantities. */
#include <math.h>

#include "../operetta_testing.h"

static operetta_value *parsed(const char *text) {
    operetta_error *error;
    operetta_value *value = operetta_parse(text, &error);
    EXPECT(error == NULL);
    return value;
}

OPERETTA_TEST(path_selects_members_and_elements) {
    operetta_value *v = parsed("{\"a\":{\"b.c\":[{\"d\":\"x\"},7]}}");
    EXPECT_STRING("x", operetta_string(v, "a.b\\.c[0].d", ""));
    EXPECT_INT(7, operetta_int(v, ".a.b\\.c[1]", 0));
    EXPECT(operetta_at(v, "a.b") == NULL);
    EXPECT(operetta_at(v, "a.b\\.c[2]") == NULL);
    EXPECT(operetta_at(NULL, "a.b[1]") == NULL);
}

OPERETTA_TEST(setters_create_missing_objects_and_arrays) {
    operetta_value *v = operetta_new_object();
    operetta_set_string(v, "spec.containers[0].image", "nginx");
    operetta_set_int(v, "spec.containers[0].ports[0].containerPort", 80);
    operetta_append_string(v, "spec.args", "-v");
    operetta_append_string(v, "spec.args", "-x");
    operetta_set_bool(v, "metadata.labels.app\\.kubernetes\\.io/name", true);
    EXPECT_STRING("{\"spec\":{\"containers\":[{\"image\":\"nginx\",\"ports\":[{\"containerPort\":80}]}],"
                  "\"args\":[\"-v\",\"-x\"]},\"metadata\":{\"labels\":{\"app.kubernetes.io/name\":true}}}",
                  operetta_to_json(v));
}

OPERETTA_TEST(setters_replace_and_remove_fields) {
    operetta_value *v = parsed("{\"a\":1,\"b\":null,\"c\":[1,2,3]}");
    operetta_set_string(v, "a", "one");
    operetta_set_int(v, "b.c", 2);
    operetta_remove(v, "c[1]");
    operetta_remove(v, "x.y.z");
    EXPECT_STRING("{\"a\":\"one\",\"b\":{\"c\":2},\"c\":[1,3]}", operetta_to_json(v));
}

OPERETTA_TEST(set_copies_the_value) {
    operetta_value *part = operetta_new_object();
    operetta_value *v = operetta_new_object();
    operetta_set(v, "a", part);
    operetta_set(v, "b", part);
    operetta_set_int(part, "x", 1);
    EXPECT_STRING("{\"a\":{},\"b\":{}}", operetta_to_json(v));
}

OPERETTA_TEST(failed_setter_fails_the_next_write) {
    operetta_error *error;
    operetta_value *map = operetta_new(OPERETTA_CONFIG_MAP, "ns", "a");
    operetta_set_string(map, "data", "text");
    operetta_set_string(map, "data.word", "x");
    EXPECT(operetta_create(map, NULL, &error) == NULL);
    EXPECT_STRING("create ConfigMap ns/a: cannot set data.word: what holds \"word\" is a string, not an object",
                  operetta_error_text(error));
    EXPECT(operetta_test_write(0) == NULL);
}

OPERETTA_TEST(setters_reject_positions_past_the_end_and_infinite_numbers) {
    operetta_error *error;
    operetta_value *map = operetta_new(OPERETTA_CONFIG_MAP, "ns", "a");
    operetta_set_string(map, "items[1]", "x");
    operetta_update(map, NULL, &error);
    EXPECT_STRING("cannot set items[1]: element 1 is past the end of an array of 0", error->message);
    operetta_test_reset();
    map = operetta_new(OPERETTA_CONFIG_MAP, "ns", "a");
    operetta_set_number(map, "data.x", NAN);
    operetta_update(map, NULL, &error);
    EXPECT_STRING("cannot set data.x: the number is not finite", error->message);
}

OPERETTA_TEST(field_of_another_type_is_absent_and_logged) {
    operetta_value *v = parsed("{\"kind\":\"Foo\",\"metadata\":{\"name\":\"a\"},\"spec\":{\"replicas\":\"3\",\"n\":null}}");
    EXPECT_INT(1, operetta_int(v, "spec.replicas", 1));
    EXPECT_STRING("warn Foo a: spec.replicas is a string, not an integer of 64 bits: taken as absent",
                  operetta_test_log(0));
    EXPECT_INT(2, operetta_int(v, "spec.n", 2));
    EXPECT_INT(3, operetta_int(v, "spec.none", 3));
    EXPECT_STRING(NULL, operetta_test_log(1));
}

OPERETTA_TEST(large_numbers_keep_all_digits) {
    const char *text = "{\"a\":9007199254740993,\"b\":-9223372036854775808,\"c\":18446744073709551615,"
                       "\"d\":123456789012345678901234567890,\"e\":0.1,\"f\":1e400}";
    operetta_value *v = parsed(text);
    EXPECT_INT(9007199254740993, operetta_int(v, "a", 0));
    EXPECT_INT(INT64_MIN, operetta_int(v, "b", 0));
    EXPECT_INT(-1, operetta_int(v, "c", -1));
    EXPECT_STRING("123456789012345678901234567890", operetta_text(v, "d", ""));
    EXPECT_STRING(text, operetta_to_json(operetta_copy(v)));
}

OPERETTA_TEST(invalid_utf_8_is_replaced) {
    operetta_value *v = operetta_new_object();
    operetta_set_string(v, "a", "ok \xC3\xA9 \xF0\x9F\x8E\xAD");
    operetta_set_string(v, "b", "x\xFFy\xC3(\xED\xA0\x80");
    EXPECT_STRING("ok \xC3\xA9 \xF0\x9F\x8E\xAD", operetta_string(v, "a", ""));
    EXPECT_STRING("x\xEF\xBF\xBDy\xEF\xBF\xBD(\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD", operetta_string(v, "b", ""));
    EXPECT(operetta_parse(operetta_to_json(v), NULL) != NULL);
}

OPERETTA_TEST(parse_error_names_the_position) {
    operetta_error *error;
    EXPECT(operetta_parse("{\"a\": nope}", &error) == NULL);
    EXPECT_INT(OPERETTA_BAD_REQUEST, error->variant);
    EXPECT(strstr(operetta_error_text(error), "at byte 6") != NULL);
    EXPECT(operetta_parse("", NULL) == NULL);
}

OPERETTA_TEST(absent_null_and_empty_are_equal) {
    EXPECT(operetta_equal(parsed("{\"a\":null,\"b\":[],\"c\":{}}"), parsed("{}")));
    EXPECT(operetta_equal(parsed("{\"a\":1,\"b\":2}"), parsed("{\"b\":2,\"a\":1}")));
    EXPECT(operetta_equal(parsed("[{\"a\":{}},1]"), parsed("[{},1]")));
    EXPECT(operetta_equal(parsed("{\"a\":{\"b\":{\"c\":null}}}"), parsed("{}")));
    EXPECT(!operetta_equal(parsed("{\"a\":{\"b\":[null]}}"), parsed("{}")));
    EXPECT(!operetta_equal(parsed("{\"a\":0}"), parsed("{}")));
    EXPECT(!operetta_equal(parsed("[1,2]"), parsed("[2,1]")));
    EXPECT(!operetta_equal(parsed("[1,2]"), parsed("[1]")));
    EXPECT(!operetta_equal(parsed("{\"a\":\"1\"}"), parsed("{\"a\":1}")));
}

OPERETTA_TEST(object_members_are_iterated_by_position) {
    operetta_value *v = parsed("{\"x\":1,\"y.z\":2}");
    EXPECT_INT(2, (int64_t)operetta_count(v, ""));
    EXPECT_STRING("y.z", operetta_member_name(v, 1));
    EXPECT_INT(2, operetta_int(operetta_element(v, 1), "", 0));
    EXPECT_INT(2, operetta_int(operetta_member(v, "y.z"), "", 0));
    EXPECT(operetta_member_name(v, 2) == NULL);
    EXPECT(operetta_element(v, 2) == NULL);
}

/* The expected values were printed by apimachinery's resource.Quantity. */
OPERETTA_TEST(quantities_are_canonical) {
    static const char *const pairs[][2] = {
        {"1500m", "1500m"}, {"1.5", "1500m"},    {"0.5", "500m"},   {"1000m", "1"},     {"1.5Gi", "1536Mi"},
        {"1024Mi", "1Gi"},  {"512Ki", "512Ki"},  {"0.5Ki", "512"},  {"1000Ki", "1000Ki"}, {"1000k", "1M"},
        {"12e3", "12e3"},   {"1.5e3", "1500"},   {"-1.5Gi", "-1536Mi"}, {"0", "0"},     {"0.0000000001", "1n"},
        {"100u", "100u"},   {"0.1Ki", "102400m"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        operetta_value *v = operetta_new_object();
        operetta_set_string(v, "q", pairs[i][0]);
        EXPECT_STRING(pairs[i][1], operetta_quantity(v, "q", "?"));
    }
    EXPECT_STRING("2", operetta_quantity(parsed("{\"q\":2}"), "q", "?"));
    EXPECT_STRING("?", operetta_quantity(parsed("{\"q\":\"2Q\"}"), "q", "?"));
    EXPECT_STRING("?", operetta_quantity(parsed("{}"), "q", "?"));
}

package controllerruntime

import (
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"operetta.dev/sdk-go/internal/codec"
)

// free has a field of any type, as the types of some custom resources.
type free struct {
	corev1.ConfigMap
	Values   any            `json:"values"`
	Nested   map[string]any `json:"nested"`
	Array    [2]any         `json:"array"`
	Untagged string
}

func TestCodecReadsAsKubernetesDoes(t *testing.T) {
	deployment := `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"web","creationTimestamp":"2026-01-01T00:00:00Z",
"managedFields":[{"manager":"m","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:replicas":{}}}}]},"spec":{"replicas":3,
"strategy":{"rollingUpdate":{"maxSurge":"25%","maxUnavailable":1}},"template":{"spec":{"containers":[{"name":"a",
"resources":{"limits":{"cpu":"500m","memory":"1Gi"}},"readinessProbe":{"httpGet":{"port":"http"}}}]}}},
"status":{"conditions":[{"type":"Available","lastUpdateTime":null}]}}`
	for text, known := range map[string]bool{
		deployment: true, `{"data":{"a":"1"},"binaryData":{"b":"AAEC"}}`: true, `{"Data":{"a":"1"},"KIND":"x","untagged":"x"}`: true,
		`{"values":[1,-1,-0,0,9223372036854775807,9223372036854775808,1234567890123456,1.0,1e3,1E400]}`:   false,
		`{"values":[1,-1,-0,0,9223372036854775807,9223372036854775808,-9223372036854775808,1.0,1.5,1e3]}`: true,
		`{"nested":{"a":{"b":[3,null,"x",true]}},"array":[1,2.5]}`:                                        true, `{"data":[]}`: false, `{"data":{"a":1}}`: false, `{`: false,
	} {
		for _, object := range []runtime.Object{&appsv1.Deployment{}, &corev1.ConfigMap{}, &free{}, &unstructured.Unstructured{}} {
			want, got := reflect.New(reflect.TypeOf(object).Elem()).Interface(), reflect.New(reflect.TypeOf(object).Elem()).Interface()
			err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), want)
			read := codec.ReadExact([]byte(text), got, kjson.UnmarshalCaseSensitivePreserveInts)
			if read && (err != nil || !reflect.DeepEqual(got, want)) {
				t.Errorf("%s into %T:\nread %+v\nwant %+v (%v)", text, object, got, want, err)
			}
			if _, isFree := object.(*free); isFree && known != read {
				t.Errorf("%s into %T: read is %v", text, object, read)
			}
			if err := unmarshal([]byte(text), object); err == nil && !reflect.DeepEqual(object, want) {
				t.Errorf("%s: unmarshal read %+v, want %+v", text, object, want)
			}
		}
	}
}

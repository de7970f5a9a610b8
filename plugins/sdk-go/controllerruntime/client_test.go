package controllerruntime_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"operetta.dev/sdk-go"
	"operetta.dev/sdk-go/controllerruntime"
	"operetta.dev/sdk-go/operettatest"
)

var (
	configMaps = operetta.GVK("v1", "ConfigMap")
	at         = operetta.Key{Namespace: "ns", Name: "a"}
)

// with runs a reconciler body in a cluster.
func with(t *testing.T, cluster *operettatest.Cluster, body func(context.Context, ctrl.Manager) (ctrl.Result, error)) (operetta.Result, error) {
	t.Helper()
	h := controllerruntime.NewHandler(func(mgr ctrl.Manager) error {
		index := func(object client.Object) []string { return []string{object.(*corev1.ConfigMap).Data["word"]} }
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.ConfigMap{}, "word", index); err != nil {
			return err
		}
		return ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).
			Complete(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) { return body(ctx, mgr) }))
	}, controllerruntime.Options{})
	return cluster.Reconcile(h, "configmap", at)
}

func seeded(t *testing.T, words ...string) *operettatest.Cluster {
	t.Helper()
	cluster := operettatest.New(t)
	for i, word := range words {
		text := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"ns","name":"%c","labels":{"n":"%d"}},"data":{"word":%q}}`, 'a'+i, i, word)
		if err := cluster.AddJSON(configMaps, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return cluster
}

// addDeployment adds the Deployment ns/a with 7 replicas.
func addDeployment(t *testing.T, cluster *operettatest.Cluster) {
	t.Helper()
	text := `{"metadata":{"namespace":"ns","name":"a"},"spec":{"replicas":7,"selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
	if err := cluster.AddJSON(operetta.GVK("apps/v1", "Deployment"), []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func named(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
}

func TestClientReadsAndWrites(t *testing.T) {
	cluster := seeded(t, "x", "y", "x")
	_, err := with(t, cluster, func(ctx context.Context, mgr ctrl.Manager) (ctrl.Result, error) {
		c := mgr.GetClient()
		var one corev1.ConfigMap
		if err := c.Get(ctx, types.NamespacedName{Namespace: "ns", Name: "a"}, &one); err != nil || one.Data["word"] != "x" || one.Kind != "ConfigMap" {
			t.Errorf("get: %+v %v", one, err)
		}
		names := func(opts ...client.ListOption) string {
			var list corev1.ConfigMapList
			if err := c.List(ctx, &list, opts...); err != nil {
				return err.Error()
			}
			var all []string
			for _, item := range list.Items {
				all = append(all, item.Name)
			}
			return strings.Join(all, " ")
		}
		for _, test := range []struct {
			opts []client.ListOption
			want string
		}{
			{[]client.ListOption{client.InNamespace("ns")}, "a b c"},
			{[]client.ListOption{client.MatchingLabels{"n": "1"}}, "b"},
			{[]client.ListOption{client.MatchingFields{"word": "x"}, client.InNamespace("ns")}, "a c"},
			{[]client.ListOption{client.MatchingFields{"word": "x"}, client.Limit(1)}, "a"},
			{[]client.ListOption{client.MatchingFields{"metadata.name": "b"}}, "b"},
			{[]client.ListOption{client.MatchingFields{"no": "x"}}, "index with name field:no does not exist: register it with mgr.GetFieldIndexer().IndexField for ConfigMap"},
		} {
			if got := names(test.opts...); got != test.want {
				t.Errorf("list: %q, want %q", got, test.want)
			}
		}
		var loose unstructured.UnstructuredList
		loose.SetAPIVersion("v1")
		loose.SetKind("ConfigMapList")
		if err := c.List(ctx, &loose); err != nil || len(loose.Items) != 3 {
			t.Errorf("unstructured: %+v %v", loose, err)
		}
		before := one.DeepCopy()
		one.Data["word"] = "patched"
		if err := c.Patch(ctx, &one, client.MergeFrom(before)); err != nil || one.Data["word"] != "patched" {
			t.Errorf("patch: %+v %v", one.Data, err)
		}
		made := named("made")
		for _, want := range []controllerutil.OperationResult{controllerutil.OperationResultCreated, controllerutil.OperationResultNone} {
			result, err := controllerutil.CreateOrUpdate(ctx, c, made, func() error {
				made.Data = map[string]string{"k": "v"}
				return ctrl.SetControllerReference(&one, made, mgr.GetScheme())
			})
			if err != nil || result != want {
				t.Errorf("create or update: %s %v, want %s", result, err, want)
			}
		}
		controllerutil.AddFinalizer(made, "e.dev/f")
		if err := errors.Join(c.Update(ctx, made), c.Delete(ctx, made), c.Get(ctx, client.ObjectKeyFromObject(made), made)); err != nil || made.DeletionTimestamp == nil {
			t.Errorf("%+v %v", made, err)
		}
		if err := c.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace("ns"), client.MatchingLabels{"n": "2"}); err != nil {
			t.Error(err)
		}
		if got := names(client.InNamespace("ns")); got != "a b made" {
			t.Errorf("after delete all of: %q", got)
		}
		return ctrl.Result{}, nil
	})
	if err != nil {
		t.Error(err)
	}
}

// gadget is a custom resource whose CRD lets data have any type.
type gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Data              map[string]string `json:"data,omitempty"`
}

type gadgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []gadget `json:"items"`
}

func (g *gadget) DeepCopyObject() runtime.Object {
	return &gadget{g.TypeMeta, *g.DeepCopy(), maps.Clone(g.Data)}
}

func (l *gadgetList) DeepCopyObject() runtime.Object {
	return &gadgetList{l.TypeMeta, *l.ListMeta.DeepCopy(), slices.Clone(l.Items)}
}

func addGadgets(scheme *runtime.Scheme) error {
	scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: "e.dev", Version: "v1", Kind: "Gadget"}, &gadget{})
	scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: "e.dev", Version: "v1", Kind: "GadgetList"}, &gadgetList{})
	return nil
}

func TestListNamesTheItemThatDoesNotFit(t *testing.T) {
	cluster := operettatest.New(t)
	for name, data := range map[string]string{"a": `{"x":"1"}`, "b": `7`, "c": `{"x":"3"}`} {
		text := fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"ns"},"data":%s}`, name, data)
		if err := cluster.AddJSON(operetta.GVK("e.dev/v1", "Gadget"), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}

	var all gadgetList
	var listed error
	h := controllerruntime.NewHandler(func(mgr ctrl.Manager) error {
		return ctrl.NewControllerManagedBy(mgr).For(&gadget{}).
			Complete(reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
				listed = mgr.GetClient().List(ctx, &all, client.InNamespace("ns"))
				var own gadget
				return reconcile.Result{}, mgr.GetClient().Get(ctx, request.NamespacedName, &own)
			}))
	}, controllerruntime.Options{AddToScheme: []controllerruntime.AddToScheme{addGadgets}})

	// The object beside it is still reconciled.
	if _, err := cluster.Reconcile(h, "gadget", at); err != nil {
		t.Error(err)
	}
	if listed == nil || !strings.HasPrefix(listed.Error(), "Gadget ns/b: ") || !strings.Contains(listed.Error(), "data") {
		t.Errorf("got %v, want an error that begins with Gadget ns/b and names data", listed)
	}

	if err := cluster.Delete(operetta.GVK("e.dev/v1", "Gadget"), operetta.Key{Namespace: "ns", Name: "b"}, operetta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Reconcile(h, "gadget", at); err != nil || listed != nil || len(all.Items) != 2 {
		t.Errorf("without it: %v, %v, %d items", err, listed, len(all.Items))
	}
}

func TestClientReturnsApimachineryErrors(t *testing.T) {
	cluster := seeded(t, "x")
	invalid := operetta.NewAPIError(operetta.Invalid, "no good")
	invalid.Status.Causes = []operetta.Cause{{Reason: "FieldValueInvalid", Message: "why", Field: "data.word"}}
	_, err := with(t, cluster, func(ctx context.Context, mgr ctrl.Manager) (ctrl.Result, error) {
		c := mgr.GetClient()
		if err := c.Get(ctx, types.NamespacedName{Namespace: "ns", Name: "no"}, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
			t.Errorf("got %v", err)
		}
		if err := c.Create(ctx, named("a")); !apierrors.IsAlreadyExists(err) {
			t.Errorf("got %v", err)
		}
		stale := named("a")
		stale.ResourceVersion = "1000"
		if err := c.Update(ctx, stale); !apierrors.IsConflict(err) {
			t.Errorf("got %v", err)
		}
		cluster.FailNext(operettatest.VerbCreate, invalid)
		err := c.Create(ctx, named("b"))
		var status apierrors.APIStatus
		if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details.Causes[0].Field != "data.word" || status.Status().Code != 422 {
			t.Errorf("got %#v", err)
		}
		cluster.FailNext(operettatest.VerbGet, operetta.NewAPIError(operetta.TooManyRequests, "slow"))
		if err := c.Get(ctx, types.NamespacedName{Name: "x"}, &corev1.ConfigMap{}); !apierrors.IsTooManyRequests(err) {
			t.Errorf("got %v", err)
		}
		return ctrl.Result{}, reconcile.TerminalError(errors.New("enough"))
	})
	if !operetta.IsTerminal(err) || !strings.Contains(err.Error(), "enough") {
		t.Errorf("got %v", err)
	}
}

func TestStatusEventsAndLogs(t *testing.T) {
	cluster := seeded(t, "x")
	addDeployment(t, cluster)
	result, err := with(t, cluster, func(ctx context.Context, mgr ctrl.Manager) (ctrl.Result, error) {
		var deployment appsv1.Deployment
		if err := mgr.GetAPIReader().Get(ctx, types.NamespacedName{Namespace: "ns", Name: "a"}, &deployment); err != nil {
			return ctrl.Result{}, err
		}
		deployment.Status.Replicas, deployment.Status.ReadyReplicas = 4, 4
		if err := mgr.GetClient().Status().Update(ctx, &deployment); err != nil || deployment.Status.ReadyReplicas != 4 {
			t.Errorf("status: %+v %v", deployment.Status, err)
		}
		mgr.GetEventRecorderFor("x").Eventf(&deployment, corev1.EventTypeWarning, "Why", "it is %d", 4)
		mgr.GetEventRecorder("x").Eventf(&deployment, nil, corev1.EventTypeNormal, "Why", "Act", "and %d", 5)
		ctrl.LoggerFrom(ctx).WithName("part").WithValues("a", 1).V(1).Info("hello", "b", "two")
		ctrl.LoggerFrom(ctx).Error(errors.New("bad"), "oh")
		return ctrl.Result{Requeue: true}, nil
	})
	if err != nil || result != operetta.Requeue() {
		t.Errorf("%v %v", result, err)
	}
	events := cluster.Events()
	if len(events) != 2 || events[0].Type != operetta.Warning || events[0].Note != "it is 4" || events[0].UID == "" ||
		events[0].Regarding.Kind != "Deployment" || events[1].Action != "Act" || events[1].Note != "and 5" {
		t.Errorf("events: %+v", events)
	}
	logs := cluster.Logs()
	if len(logs) != 2 || logs[0].Level != operetta.LevelDebug || logs[0].Field("a") != "1" || logs[0].Field("b") != "two" ||
		logs[0].Field("logger") != "part" || logs[1].Level != operetta.LevelError || logs[1].Field("error") != "bad" {
		t.Errorf("logs: %+v", logs)
	}
}

func TestPanicErrorNamesItsLocation(t *testing.T) {
	_, err := with(t, seeded(t, "x"), func(context.Context, ctrl.Manager) (ctrl.Result, error) { panic(sing()) })
	if err == nil || !strings.HasPrefix(err.Error(), "panic: boom at operetta.dev/sdk-go/controllerruntime_test.TestPanicErrorNamesItsLocation") {
		t.Errorf("got %v", err)
	}
}

func sing() string { return "boom" }

func TestClientsetAndSubresourcesUseRawRequests(t *testing.T) {
	cluster := seeded(t, "x", "yes")
	addDeployment(t, cluster)
	_, err := with(t, cluster, func(ctx context.Context, mgr ctrl.Manager) (ctrl.Result, error) {
		clientset, err := kubernetes.NewForConfig(mgr.GetConfig())
		if err != nil {
			return ctrl.Result{}, err
		}
		got, err := clientset.CoreV1().ConfigMaps("ns").Get(ctx, "b", metav1.GetOptions{})
		if err != nil || got.Data["word"] != "yes" {
			t.Errorf("clientset: %+v %v", got, err)
		}
		if _, err := clientset.CoreV1().ConfigMaps("ns").Get(ctx, "c", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("clientset: %v", err)
		}
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
		before := deployment.DeepCopy()
		deployment.Labels = map[string]string{"a": "b"}
		if err := mgr.GetClient().Patch(ctx, deployment, client.StrategicMergeFrom(before)); err != nil || *deployment.Spec.Replicas != 7 || deployment.Labels["a"] != "b" {
			t.Errorf("strategic: %+v %v", deployment.Spec, err)
		}
		namespaced, err := mgr.GetClient().IsObjectNamespaced(deployment)
		if err != nil || !namespaced {
			t.Errorf("namespaced: %t %v", namespaced, err)
		}
		return ctrl.Result{}, nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestClientRejectsCallsDuringSetup(t *testing.T) {
	_, err := controllerruntime.NewHandler(func(mgr ctrl.Manager) error {
		return mgr.GetClient().Create(context.Background(), named("early"))
	}, controllerruntime.Options{}).Describe()
	if err == nil || !strings.Contains(err.Error(), "use it in Reconcile") {
		t.Errorf("got %v", err)
	}
}

// handled keeps the warnings that it gets.
type handled []string

func (h *handled) HandleWarningHeaderWithContext(_ context.Context, code int, agent, text string) {
	*h = append(*h, fmt.Sprintf("%d %s %s", code, agent, text))
}

func TestWarningsReachTheHandler(t *testing.T) {
	warn := func(options controllerruntime.Options) *operettatest.Cluster {
		cluster := seeded(t, "x")
		h := controllerruntime.NewHandler(func(mgr ctrl.Manager) error {
			return ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).
				Complete(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
					misspelt := &unstructured.Unstructured{Object: map[string]any{"by": "the client"}}
					misspelt.SetAPIVersion("v1")
					misspelt.SetKind("ConfigMap")
					misspelt.SetNamespace("ns")
					misspelt.SetName("b")
					if err := mgr.GetClient().Create(ctx, misspelt); err != nil {
						return reconcile.Result{}, err
					}
					clientset, err := kubernetes.NewForConfig(mgr.GetConfig())
					if err != nil {
						return reconcile.Result{}, err
					}
					_, err = clientset.CoreV1().ConfigMaps("ns").Patch(ctx, "a", types.MergePatchType, []byte(`{"wrong":{}}`), metav1.PatchOptions{})
					return reconcile.Result{}, err
				}))
		}, options)
		if _, err := cluster.Reconcile(h, "configmap", at); err != nil {
			t.Fatal(err)
		}
		return cluster
	}

	// client-go traces the bodies of requests.
	messages := func(options controllerruntime.Options) (messages []string) {
		for _, line := range warn(options).Logs() {
			if line.Level.String() != "trace" {
				messages = append(messages, line.Message)
			}
		}
		return messages
	}
	logged := messages(controllerruntime.Options{})
	if got := strings.Join(logged, "; "); got != `unknown field "by"; unknown field "wrong"` {
		t.Errorf("logged %q", got)
	}

	var own handled
	if lines := messages(controllerruntime.Options{WarningHandler: &own}); len(lines) > 0 {
		t.Errorf("logged %v", lines)
	}
	if got := strings.Join(own, "; "); got != `299 - unknown field "by"; 299 - unknown field "wrong"` {
		t.Errorf("handled %q", got)
	}
}

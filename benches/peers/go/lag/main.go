// Command lag writes and then reads from controller-runtime's cache, for `make bench-lag`: how many reads miss the write
// before them, and how long do they take? One line asks for a case, one line answers.
//
//	peer-lag --kubeconfig F --namespace N --read-your-writes
//	{"form":"update","read":"list","count":100}
//	{"form":"update","read":"list","old":0,"waits":[0.2]}
//
// The bench has made the objects: FORM-READ-0 … with the label case=FORM-READ, and a label set of their own name. waits are
// milliseconds, one for each read. A write or read that controller-runtime refuses ends the case, with its reason in
// "refused". --read-your-writes is client.CacheOptions.EnableReadYourWritesConsistency.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// patience is the longest time that a read may take.
const patience = 30 * time.Second

// question asks for one case.
type question struct {
	Form  string `json:"form"`
	Read  string `json:"read"`
	Count int    `json:"count"`
}

// answer is one line of output.
type answer struct {
	Form    string    `json:"form"`
	Read    string    `json:"read"`
	Old     int       `json:"old"`
	Waits   []float64 `json:"waits"`
	Refused string    `json:"refused,omitempty"`
}

// writer makes the writes and reads of all cases.
type writer struct {
	client.Client
	clientset *kubernetes.Clientset
	namespace string
}

func main() {
	// controller-runtime has defined --kubeconfig in the common set.
	namespace := flag.String("namespace", "", "of all objects")
	consistent := flag.Bool("read-your-writes", false, "reads wait for the cache to have the writes before them")
	flag.Parse()
	if err := run(*namespace, *consistent); err != nil {
		text, _ := json.Marshal(map[string]string{"error": err.Error()})
		fmt.Println(string(text))
		os.Exit(1)
	}
}

func run(namespace string, consistent bool) error {
	ctrl.SetLogger(logr.Discard())
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		Client:  client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: &consistent}},
		Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}

	ctx := ctrl.SetupSignalHandler()
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	w := &writer{Client: manager.GetClient(), clientset: clientset, namespace: namespace}
	go func() { ended <- w.answerAll(ctx) }()
	return <-ended
}

// answerAll answers until standard input ends.
func (w *writer) answerAll(ctx context.Context) error {
	// The first read of a kind waits until its informer has synced.
	for _, list := range []client.ObjectList{&appsv1.DeploymentList{}, &corev1.PodList{}} {
		if err := w.List(ctx, list, client.InNamespace(w.namespace)); err != nil {
			return err
		}
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			return err
		}
		text, err := json.Marshal(w.answer(ctx, asked))
		if err != nil {
			return err
		}
		fmt.Println(string(text))
	}
	return lines.Err()
}

func (w *writer) answer(ctx context.Context, asked question) answer {
	result := answer{Form: asked.Form, Read: asked.Read, Waits: []float64{}}
	for at := range asked.Count {
		name := fmt.Sprintf("%s-%s-%d", asked.Form, asked.Read, at)
		if err := w.write(ctx, asked.Form, name); err != nil {
			result.Refused = "write: " + err.Error()
			break
		}
		began := time.Now()
		found, err := w.read(ctx, asked, name)
		if err != nil {
			result.Refused = "read: " + err.Error()
			break
		}
		result.Waits = append(result.Waits, float64(time.Since(began).Nanoseconds())/1e6)
		if !shows(asked.Form, found) {
			result.Old++
		}
	}
	return result
}

// write changes the object of this name. Objects that are sent whole are read before.
func (w *writer) write(ctx context.Context, form, name string) error {
	key := types.NamespacedName{Namespace: w.namespace, Name: name}
	named := metav1.ObjectMeta{Namespace: w.namespace, Name: name}
	deployment := &appsv1.Deployment{ObjectMeta: named}
	written := map[string]string{"n": "1"}
	switch form {
	case "create":
		made := newDeployment(named)
		made.Annotations = written
		return w.Create(ctx, made)
	case "update":
		if err := w.Get(ctx, key, deployment); err != nil {
			return err
		}
		deployment.Annotations = written
		return w.Update(ctx, deployment)
	case "patch":
		if err := w.Get(ctx, key, deployment); err != nil {
			return err
		}
		before := deployment.DeepCopy()
		deployment.Annotations = written
		return w.Patch(ctx, deployment, client.MergeFrom(before))
	case "apply":
		apply := appsapply.Deployment(name, w.namespace).WithAnnotations(written)
		return w.Apply(ctx, apply, client.FieldOwner("peer-lag"), client.ForceOwnership)
	case "status":
		if err := w.Get(ctx, key, deployment); err != nil {
			return err
		}
		deployment.Status.Replicas = 1
		return w.Status().Update(ctx, deployment)
	case "scale":
		if err := w.Get(ctx, key, deployment); err != nil {
			return err
		}
		scale := &autoscalingv1.Scale{ObjectMeta: named, Spec: autoscalingv1.ScaleSpec{Replicas: 1}}
		return w.SubResource("scale").Update(ctx, deployment, client.WithSubResourceBody(scale))
	case "delete":
		return w.Delete(ctx, deployment)
	case "delete-collection":
		return w.DeleteAllOf(ctx, &appsv1.Deployment{}, client.InNamespace(w.namespace), client.MatchingLabels{"set": name})
	case "evict":
		pod := &corev1.Pod{ObjectMeta: named}
		return w.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{ObjectMeta: named})
	case "raw":
		body := []byte(`{"metadata":{"annotations":{"n":"1"}}}`)
		patches := w.clientset.AppsV1().Deployments(w.namespace)
		_, err := patches.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
		return err
	}
	return fmt.Errorf("no such form: %s", form)
}

// read reads the object from the cache; nil if it is not there.
func (w *writer) read(ctx context.Context, asked question, name string) (client.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	var object client.Object = &appsv1.Deployment{}
	var list client.ObjectList = &appsv1.DeploymentList{}
	if asked.Form == "evict" {
		object, list = &corev1.Pod{}, &corev1.PodList{}
	}
	switch asked.Read {
	case "get":
		err := w.Get(ctx, types.NamespacedName{Namespace: w.namespace, Name: name}, object)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return object, err
	case "list":
		of := client.MatchingLabels{"case": asked.Form + "-" + asked.Read}
		if err := w.List(ctx, list, client.InNamespace(w.namespace), of); err != nil {
			return nil, err
		}
		var found client.Object
		err := meta.EachListItem(list, func(item runtime.Object) error {
			if item, ok := item.(client.Object); ok && item.GetName() == name {
				found = item
			}
			return nil
		})
		return found, err
	}
	return nil, fmt.Errorf("no such read: %s", asked.Read)
}

// shows reports whether an object is as the write left it.
func shows(form string, found client.Object) bool {
	deployment, _ := found.(*appsv1.Deployment)
	switch form {
	case "delete", "delete-collection":
		return found == nil
	case "evict":
		return found == nil || found.GetDeletionTimestamp() != nil
	case "status":
		return deployment != nil && deployment.Status.Replicas == 1
	case "scale":
		return deployment != nil && deployment.Spec.Replicas != nil && *deployment.Spec.Replicas == 1
	}
	return found != nil && found.GetAnnotations()["n"] == "1"
}

// newDeployment returns one of no replicas with the labels of its case.
func newDeployment(named metav1.ObjectMeta) *appsv1.Deployment {
	none := int32(0)
	selector := map[string]string{"app": named.Name}
	// FORM-READ-N is in the case FORM-READ.
	end := len(named.Name) - 1
	for named.Name[end] != '-' {
		end--
	}
	named.Labels = map[string]string{"case": named.Name[:end], "set": named.Name}
	return &appsv1.Deployment{
		ObjectMeta: named,
		Spec: appsv1.DeploymentSpec{
			Replicas: &none,
			Selector: &metav1.LabelSelector{MatchLabels: selector},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: selector},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.example/c"}}},
			},
		},
	}
}

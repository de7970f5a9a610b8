// The conformance suite's plugin for the Go SDK. plugins/conformance/README.md describes each case.
package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"operetta.dev/sdk-go"
)

func init() { operetta.Serve(plugin) }

func main() {}

func plugin() *operetta.Plugin {
	limiter := operetta.DefaultRateLimiter().Backoff(5*time.Millisecond, time.Second).Bucket(1_000, 1_000)
	cases := operetta.NewController("cases", operetta.Of[ConfigMap]().WithLabels("conformance=case"), reconcile).
		Owns(operetta.Of[ConfigMap]().WithLabels("conformance=child")).
		Watches(operetta.Of[ConfigMap]().WithLabels("conformance=wake").WithPruned(".data.pruned"), operetta.ToKeys(woken)).
		Workers(4).RateLimit(limiter).InOwnNamespace()
	maps := operetta.KindOf[ConfigMap]()
	return operetta.NewPlugin(cases).
		Index("colour", maps, ".data.colour").IndexByLabel("app", maps, "app").IndexByController("owner", maps, maps)
}

// woken returns the keys that a ConfigMap names. The cache has pruned one of the two fields.
func woken(waker *ConfigMap) []operetta.Key {
	if waker.Data["fail"] != "" {
		panic("no keys today")
	}
	var keys []operetta.Key
	for _, name := range strings.Fields(waker.Data["wakes"] + " " + waker.Data["pruned"]) {
		keys = append(keys, operetta.Key{Namespace: waker.Namespace, Name: name})
	}
	return keys
}

// suite is one case with its client and object.
type suite struct {
	*operetta.Client
	ctx context.Context
	it  *ConfigMap
}

func reconcile(ctx context.Context, client *operetta.Client) (operetta.Result, error) {
	it, err := operetta.Get[ConfigMap](ctx, client, operetta.RequestFrom(ctx).Key)
	if err != nil {
		return operetta.Done(), operetta.IgnoreNotFound(err)
	}
	s := suite{Client: client, ctx: ctx, it: it}
	if it.Name == "finalizer" {
		return operetta.Done(), s.finalizer()
	}
	if _, done := it.Data["result"]; done {
		return operetta.Done(), nil
	}
	if kind, ok := strings.CutPrefix(it.Name, "result-"); ok || strings.HasPrefix(it.Name, "map-") {
		return s.result(kind)
	}
	result, saw := "ok", ""
	if behaviour, ok := behaviours[it.Name]; !ok {
		result = "unsupported: the Go plugin does not know this case"
	} else if saw, err = behaviour(s); err != nil {
		result = "failed: " + err.Error()
	}
	patch := map[string]any{"data": map[string]string{"result": result, "saw": saw}}
	return operetta.Done(), client.Patch(ctx, s.named(it.Name), operetta.MergePatch(patch))
}

func (s suite) key(name string) operetta.Key {
	return operetta.Key{Namespace: s.it.Namespace, Name: name}
}

// named returns an empty ConfigMap in the case's namespace.
func (s suite) named(name string) *ConfigMap {
	return &ConfigMap{ObjectMeta: operetta.ObjectMeta{Namespace: s.it.Namespace, Name: name}}
}

// with returns a new ConfigMap with data.word.
func (s suite) with(name, word string) *ConfigMap {
	of := s.named(name)
	of.Data = map[string]string{"word": word}
	return of
}

func (s suite) target() (*ConfigMap, error) {
	return operetta.Get[ConfigMap](s.ctx, s.Client, s.key(s.it.Data["target"]))
}

// words formats an error as VARIANT CODE REASON.
func words(err error) (string, error) {
	api, ok := asAPIError(err)
	if !ok {
		return "", fmt.Errorf("expected an error of the API server, got %v", err)
	}
	return fmt.Sprintf("%s %d %s", api.Kind, api.Status.Code, api.Status.Reason), nil
}

func variant(err error) string {
	if err == nil {
		return "none"
	}
	kind, _ := operetta.ErrorKindOf(err)
	return kind.String()
}

func names(of []ConfigMap) string {
	var all []string
	for _, one := range of {
		all = append(all, one.Name)
	}
	return strings.Join(all, ",")
}

func (s suite) finalizer() error {
	const finalizer = "conformance.operetta.dev/cleanup"
	if s.it.DeletionTimestamp == nil {
		if operetta.AddFinalizer(s.it, finalizer) {
			return s.Update(s.ctx, s.it)
		}
		return nil
	}
	if !operetta.HasFinalizer(s.it, finalizer) {
		return nil
	}
	if err := s.Create(s.ctx, s.named("finalizer-cleaned")); err != nil && !operetta.IsAlreadyExists(err) {
		return err
	}
	operetta.RemoveFinalizer(s.it, finalizer)
	return s.Update(s.ctx, s.it)
}

// appendRun appends the retries to the target's runs, and returns the number of runs.
func (s suite) appendRun() (int, error) {
	target := s.named("")
	if err := s.GetLive(s.ctx, s.key(s.it.Data["target"]), target); err != nil {
		return 0, err
	}
	runs := target.Data["runs"] + strconv.Itoa(int(operetta.RequestFrom(s.ctx).Retries)) + " "
	patch := map[string]any{"data": map[string]string{"runs": runs}}
	return len(strings.Fields(runs)), s.Patch(s.ctx, target, operetta.MergePatch(patch))
}

func (s suite) result(kind string) (operetta.Result, error) {
	runs, err := s.appendRun()
	if err != nil {
		return operetta.Done(), err
	}
	switch {
	case kind == "requeue" && runs < 3:
		return operetta.Requeue(), nil
	case kind == "requeue-after" && runs < 2:
		return operetta.RequeueAfter(300 * time.Millisecond), nil
	case kind == "error" && runs < 3:
		return operetta.Done(), fmt.Errorf("no luck yet")
	case kind == "terminal":
		return operetta.Done(), operetta.Terminalf("no use to retry")
	case kind == "panic" && runs < 2:
		sing()
	}
	return operetta.Done(), nil
}

//go:noinline
func sing() { panic("boom at the opera") }

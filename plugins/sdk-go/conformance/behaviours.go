package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"operetta.dev/sdk-go"
)

func asAPIError(err error) (*operetta.APIError, bool) {
	var api *operetta.APIError
	return api, errors.As(err, &api)
}

// behaviours maps the name of each case to a function that runs it and returns its result.
var behaviours = map[string]func(suite) (string, error){
	"get-cached": func(s suite) (string, error) {
		target, err := s.target()
		if err != nil {
			return "", err
		}
		return target.Data["word"], nil
	},
	"get-live": func(s suite) (string, error) {
		target := s.named("")
		err := s.GetLive(s.ctx, s.key(s.it.Data["target"]), target)
		return target.Data["word"], err
	},
	"list-labels": func(s suite) (string, error) {
		return s.list(operetta.ListOptions{Labels: s.it.Data["selector"]})
	},
	"list-fields": func(s suite) (string, error) {
		return s.list(operetta.ListOptions{Fields: "metadata.name=" + s.it.Data["target"]})
	},
	"list-empty": func(s suite) (string, error) {
		items, err := operetta.List[ConfigMap](s.ctx, s.Client, operetta.ListOptions{
			Namespace: s.it.Namespace, Labels: s.it.Data["selector"],
		})
		return strconv.Itoa(len(items)), err
	},
	"list-paged": func(s suite) (string, error) {
		options := operetta.ListOptions{Namespace: s.it.Namespace, Labels: s.it.Data["selector"], Limit: 2, Live: true}
		var all []ConfigMap
		for pages := 1; ; pages++ {
			items, next, err := operetta.ListPage[ConfigMap](s.ctx, s.Client, options)
			if err != nil {
				return "", err
			}
			all = append(all, items...)
			if options.Continue = next; next == "" {
				return fmt.Sprintf("%s %d", names(all), pages), nil
			}
		}
	},
	"list-index": func(s suite) (string, error) {
		return s.list(operetta.ListOptions{Index: "colour", IndexValue: s.it.Data["colour"]})
	},
	"list-label-index": func(s suite) (string, error) {
		return s.list(operetta.ListOptions{Index: "app", IndexValue: s.it.Data["app"]})
	},
	"list-owner-index": func(s suite) (string, error) {
		return s.list(operetta.ListOptions{Index: "owner", IndexValue: s.it.Data["owner"]})
	},
	"list-owner": func(s suite) (string, error) {
		return s.list(operetta.ListOptions{OwnerUID: s.it.Data["uid"]})
	},
	"list-projection": func(s suite) (string, error) {
		items, err := operetta.List[ConfigMap](s.ctx, s.Client, operetta.ListOptions{
			Namespace: s.it.Namespace, Labels: s.it.Data["selector"], Projection: []string{".data.word"},
		})
		var pairs []string
		other := false
		for _, item := range items {
			pairs = append(pairs, item.Name+"="+item.Data["word"])
			_, has := item.Data["other"]
			other = other || has
		}
		return fmt.Sprintf("%s %t", strings.Join(pairs, ","), other), err
	},
	"read-own-write": suite.readOwnWrite,
	"create": func(s suite) (string, error) {
		made := s.with("create-made", s.it.Data["word"])
		err := s.Create(s.ctx, made)
		return made.UID, err
	},
	"create-dry-run": func(s suite) (string, error) {
		made := s.with("dry-made", "dry")
		err := s.Create(s.ctx, made, operetta.WriteOptions{DryRun: true})
		return made.Name, err
	},
	"create-strict": func(s suite) (string, error) {
		widget := operetta.NewUnstructured(operetta.KindOf[Widget](), s.key("strict-made"))
		if err := widget.Set(true, "spec", "wrong"); err != nil {
			return "", err
		}
		return words(s.Create(s.ctx, widget, operetta.WriteOptions{Strict: true}))
	},
	"create-warning": func(s suite) (string, error) {
		widget := operetta.NewUnstructured(operetta.KindOf[Widget](), s.key("warned-made"))
		if err := widget.Set(true, "spec", "wrong"); err != nil {
			return "", err
		}
		err := s.Create(s.ctx, widget)
		return strings.Join(s.TakeWarnings(), "; "), err
	},
	"update": func(s suite) (string, error) {
		target, err := s.target()
		if err != nil {
			return "", err
		}
		target.Data["word"] = "updated"
		err = s.Update(s.ctx, target)
		return target.Data["word"], err
	},
	"update-status": func(s suite) (string, error) {
		widget, err := operetta.Get[Widget](s.ctx, s.Client, s.key(s.it.Data["target"]))
		if err != nil {
			return "", err
		}
		widget.Status = &WidgetStatus{Phase: "ready"}
		widget.Spec.Touched = true
		if err := s.UpdateStatus(s.ctx, widget); err != nil {
			return "", err
		}
		if widget.Status == nil {
			return "", errors.New("the answer has no status")
		}
		return fmt.Sprintf("%s %t", widget.Status.Phase, widget.Spec.Touched), nil
	},
	"patch-merge": func(s suite) (string, error) {
		target := s.named(s.it.Data["target"])
		err := s.Patch(s.ctx, target, operetta.MergePatch(map[string]any{"data": map[string]any{"word": "merged", "other": nil}}))
		var pairs []string
		for name, value := range target.Data {
			pairs = append(pairs, name+"="+value)
		}
		slices.Sort(pairs)
		return strings.Join(pairs, ","), err
	},
	"patch-json": func(s suite) (string, error) {
		target := s.named(s.it.Data["target"])
		err := s.Patch(s.ctx, target, operetta.JSONPatch([]operetta.JSONOperation{
			{Op: "replace", Path: "/data/word", Value: "patched"},
		}))
		return target.Data["word"], err
	},
	"patch-apply": func(s suite) (string, error) {
		target := s.with(s.it.Data["target"], "applied")
		patch := operetta.ApplyPatch(s.with(s.it.Data["target"], "applied"))
		refused, err := words(s.Patch(s.ctx, target, patch))
		if err != nil {
			return "", err
		}
		patch.Force = true
		err = s.Patch(s.ctx, target, patch)
		return refused + "; " + target.Data["word"], err
	},
	"patch-scale": func(s suite) (string, error) {
		scale := operetta.NewUnstructured(operetta.GVK("apps/v1", "Deployment"), s.key(s.it.Data["target"]))
		patch := operetta.MergePatch(map[string]any{"spec": map[string]any{"replicas": 3}})
		patch.Subresource = "scale"
		err := s.Patch(s.ctx, scale, patch)
		return scale.String("spec", "replicas"), err
	},
	"delete": func(s suite) (string, error) {
		return "deleted", s.Delete(s.ctx, s.named(s.it.Data["target"]))
	},
	"delete-precondition": func(s suite) (string, error) {
		return words(s.Delete(s.ctx, s.named(s.it.Data["target"]), operetta.DeleteOptions{UID: "00000000-0000-0000-0000-000000000000"}))
	},
	"delete-orphan": func(s suite) (string, error) {
		return "deleted", s.Delete(s.ctx, s.named(s.it.Data["target"]), operetta.DeleteOptions{Propagation: operetta.Orphan})
	},
	"error-not-found": func(s suite) (string, error) {
		_, err := operetta.Get[ConfigMap](s.ctx, s.Client, s.key("no-such-object"))
		return words(err)
	},
	"error-already-exists": func(s suite) (string, error) {
		return words(s.Create(s.ctx, s.named(s.it.Data["target"])))
	},
	"error-conflict": func(s suite) (string, error) {
		target, err := s.target()
		if err != nil {
			return "", err
		}
		target.ResourceVersion = "1"
		return words(s.Update(s.ctx, target))
	},
	"error-invalid": func(s suite) (string, error) {
		made := s.named("error-invalid-made")
		made.Labels = map[string]string{"conformance": "not/a/label"}
		err := s.Create(s.ctx, made)
		saw, unexpected := words(err)
		if api, ok := asAPIError(err); ok && len(api.Status.Causes) > 0 {
			saw += " " + api.Status.Causes[0].Field
		}
		return saw, unexpected
	},
	"error-bad-request": func(s suite) (string, error) {
		_, err := s.list(operetta.ListOptions{Index: "no-such-index", IndexValue: "x"})
		return words(err)
	},
	"error-forbidden": func(s suite) (string, error) {
		secret := operetta.NewUnstructured(operetta.GVK("v1", "Secret"), operetta.Key{})
		return words(s.GetLive(s.ctx, s.key("hidden"), secret))
	},
	"error-expired":           suite.refused,
	"error-too-many-requests": suite.refused,
	"error-unavailable":       suite.refused,
	"error-timed-out":         suite.refused,
	"error-other":             suite.refused,
	"raw-get": func(s suite) (string, error) {
		response, err := s.Raw(s.ctx, operetta.RawRequest{Method: "GET", Path: s.path(s.it.Data["target"])})
		if err != nil {
			return "", err
		}
		var body ConfigMap
		err = json.Unmarshal(response.Body, &body)
		return fmt.Sprintf("%d %s", response.Status, body.Data["word"]), err
	},
	"raw-post": func(s suite) (string, error) {
		body, err := json.Marshal(map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "raw-made"},
		})
		if err != nil {
			return "", err
		}
		response, err := s.Raw(s.ctx, operetta.RawRequest{Method: "POST", Path: s.path(""), Body: body})
		if err != nil {
			return "", err
		}
		made, err := operetta.Get[ConfigMap](s.ctx, s.Client, s.key("raw-made"))
		if err != nil {
			return "", fmt.Errorf("after %d: %w", response.Status, err)
		}
		return fmt.Sprintf("%d %s", response.Status, made.Name), nil
	},
	"raw-error": func(s suite) (string, error) {
		return statusOf(s.Raw(s.ctx, operetta.RawRequest{Method: "GET", Path: s.path("no-such-object")}))
	},
	"raw-watch": func(s suite) (string, error) {
		return statusOf(s.Raw(s.ctx, operetta.RawRequest{Method: "GET", Path: s.path(""), Query: "watch=true"}))
	},
	"event": func(s suite) (string, error) {
		s.EventWithAction(s.it, operetta.Normal, "Conformed", "Test", "it works")
		return "emitted", nil
	},
	"log": func(suite) (string, error) {
		slog.Info("a line for conformance", "colour", "red")
		return "logged", nil
	},
	"config": func(s suite) (string, error) {
		var config struct{ Word string }
		err := s.Config(&config)
		return config.Word, err
	},
	"create-or-update": func(s suite) (string, error) {
		var results []string
		for _, word := range []string{"1", "1", "2"} {
			made := s.named("cou-made")
			result, err := s.CreateOrUpdate(s.ctx, made, func() error {
				made.Data = map[string]string{"word": word}
				return nil
			})
			if err != nil {
				return "", err
			}
			results = append(results, string(result))
		}
		return strings.Join(results, " "), nil
	},
	"owner-reference": func(s suite) (string, error) {
		made := s.named("owned-made")
		made.Labels = map[string]string{"conformance": "child"}
		if err := operetta.SetControllerReference(s.it, made); err != nil {
			return "", err
		}
		return "created", s.Create(s.ctx, made)
	},
	"get-pruned": func(s suite) (string, error) {
		of, err := s.target()
		if err != nil {
			return "", err
		}
		return of.Data["pruned"], nil
	},
	"unicode": func(s suite) (string, error) { return s.copyTo("unicode-made") },
	"big": func(s suite) (string, error) {
		word, err := s.copyTo("big-made")
		return strconv.Itoa(len(word)), err
	},
	"null-or-missing": suite.nullOrMissing,
	"int64": func(s suite) (string, error) {
		widget, err := s.touch()
		if err != nil {
			return "", err
		}
		return strconv.FormatInt(widget.Spec.Big, 10), nil
	},
	"quantity": func(s suite) (string, error) {
		widget, err := s.touch()
		if err != nil {
			return "", err
		}
		return widget.Spec.Size.canonical()
	},
}

// list returns the names of the ConfigMaps of the case's namespace.
func (s suite) list(options operetta.ListOptions) (string, error) {
	options.Namespace = s.it.Namespace
	items, err := operetta.List[ConfigMap](s.ctx, s.Client, options)
	return names(items), err
}

func (s suite) readOwnWrite() (string, error) {
	const name = "read-own-write-made"
	made := s.with(name, "1")
	made.Labels = map[string]string{"conformance": "made"}
	if err := s.Create(s.ctx, made); err != nil {
		return "", err
	}
	first, err := operetta.Get[ConfigMap](s.ctx, s.Client, s.key(name))
	if err != nil {
		return "", err
	}
	word := first.Data["word"]
	first.Data["word"] = "2"
	if err := s.Update(s.ctx, first); err != nil {
		return "", err
	}
	second, err := operetta.Get[ConfigMap](s.ctx, s.Client, s.key(name))
	if err != nil {
		return "", err
	}
	items, err := operetta.List[ConfigMap](s.ctx, s.Client, operetta.ListOptions{Namespace: s.it.Namespace, Labels: "conformance=made"})
	if err != nil {
		return "", err
	}
	held := slices.ContainsFunc(items, func(item ConfigMap) bool { return item.Name == name && item.Data["word"] == "2" })
	if err := s.Delete(s.ctx, second); err != nil {
		return "", err
	}
	_, err = operetta.Get[ConfigMap](s.ctx, s.Client, s.key(name))
	return fmt.Sprintf("%s %s %t %s", word, second.Data["word"], held, variant(err)), nil
}

// refused creates a ConfigMap that an admission webhook rejects, and returns the error.
func (s suite) refused() (string, error) {
	made := s.named(s.it.Data["target"])
	made.Labels = map[string]string{"conformance": "refuse"}
	err := s.Create(s.ctx, made)
	saw, unexpected := words(err)
	if api, ok := asAPIError(err); ok && api.Kind == operetta.TooManyRequests {
		saw += fmt.Sprintf(" %d", int(api.Status.RetryAfter.Seconds()))
	}
	return saw, unexpected
}

func (s suite) path(name string) string {
	path := "/api/v1/namespaces/" + s.it.Namespace + "/configmaps"
	if name != "" {
		path += "/" + name
	}
	return path
}

// statusOf returns the status code of a response and the reason of its Status.
func statusOf(response operetta.RawResponse, err error) (string, error) {
	if err != nil {
		return "", err
	}
	var body struct{ Reason string }
	err = json.Unmarshal(response.Body, &body)
	return fmt.Sprintf("%d %s", response.Status, body.Reason), err
}

// copyTo creates a ConfigMap with the target's word, and returns it.
func (s suite) copyTo(name string) (string, error) {
	target, err := s.target()
	if err != nil {
		return "", err
	}
	word := target.Data["word"]
	return word, s.Create(s.ctx, s.with(name, word))
}

func (s suite) nullOrMissing() (string, error) {
	tell := func(widget *operetta.Unstructured) string {
		note, found := widget.Get("spec", "note")
		switch {
		case !found:
			return "missing"
		case note == nil:
			return "null"
		}
		return fmt.Sprint(note)
	}
	var saw []string
	for _, name := range []string{"null-note", "no-note"} {
		widget := operetta.NewUnstructured(operetta.KindOf[Widget](), operetta.Key{})
		if err := s.Get(s.ctx, s.key(name), widget); err != nil {
			return "", err
		}
		saw = append(saw, tell(widget))
	}
	widget := operetta.NewUnstructured(operetta.KindOf[Widget](), s.key("with-note"))
	err := s.Patch(s.ctx, widget, operetta.MergePatch(map[string]any{"spec": map[string]any{"note": nil}}))
	return strings.Join(append(saw, tell(widget)), " "), err
}

func (s suite) touch() (*Widget, error) {
	widget, err := operetta.Get[Widget](s.ctx, s.Client, s.key(s.it.Data["target"]))
	if err != nil {
		return nil, err
	}
	widget.Spec.Touched = true
	return widget, s.Update(s.ctx, widget)
}

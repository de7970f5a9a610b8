// Writes the message of each {{kind}} into a ConfigMap of the same name, and names it in the status.
package main

import (
	"context"
	"log/slog"

	"operetta.dev/sdk-go"
)

func init() { operetta.Serve(plugin) }

func main() {}

// plugin watches the {{kind}}s of its own namespace, and the ConfigMaps that they control.
func plugin() *operetta.Plugin {
	return operetta.NewPlugin(
		operetta.For("{{singular}}", reconcile).Owns(operetta.Of[configMap]()).InOwnNamespace(),
	)
}

func reconcile(ctx context.Context, client *operetta.Client, object *{{kind}}) (operetta.Result, error) {
	wanted := &configMap{ObjectMeta: operetta.ObjectMeta{Namespace: object.Namespace, Name: object.Name}}
	// Writes nothing if nothing changes.
	result, err := client.CreateOrUpdate(ctx, wanted, func() error {
		wanted.Data = map[string]string{"message": object.Spec.Message}
		return operetta.SetControllerReference(object, wanted)
	})
	if err != nil {
		return operetta.Result{}, err
	}
	if result != operetta.Unchanged {
		slog.Info("ConfigMap written", "result", result)
		client.Event(object, operetta.Normal, "Written", "The message is in the ConfigMap")
	}

	status := {{kind}}Status{ConfigMap: wanted.Name}
	if object.Status != status {
		object.Status = status
		if err := client.UpdateStatus(ctx, object); err != nil {
			return operetta.Result{}, err
		}
	}
	return operetta.Done(), nil
}

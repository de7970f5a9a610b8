// Kubernetes' sample-controller as an Operetta plugin: each Foo has a Deployment of the name and size in its spec, and
// its status shows the available replicas.
package main

import (
	"context"
	"fmt"
	"log/slog"

	"operetta.dev/sdk-go"
)

func init() { operetta.Serve(plugin) }

func main() {}

// plugin returns the controller of the Foos in the Plugin's own namespace, and of the Deployments that they control. It
// ignores periodic resyncs of Deployments, whose resourceVersion is unchanged.
func plugin() *operetta.Plugin {
	deployments := operetta.Of[Deployment]().WithPredicates(operetta.ResourceVersionChanged)
	return operetta.NewPlugin(
		operetta.For("foo", reconcile).WhenGone(gone).Owns(deployments).Workers(2).InOwnNamespace(),
	)
}

// gone logs a deleted Foo. The garbage collector deletes its Deployment.
func gone(ctx context.Context, client *operetta.Client) (operetta.Result, error) {
	slog.Info("Foo in work queue no longer exists", "key", operetta.RequestFrom(ctx).Key)
	return operetta.Done(), nil
}

func reconcile(ctx context.Context, client *operetta.Client, foo *Foo) (operetta.Result, error) {
	if foo.Spec.DeploymentName == "" {
		return operetta.Done(), operetta.Terminalf("%s: deployment name must be specified", operetta.KeyOf(foo))
	}

	deployment := &Deployment{ObjectMeta: operetta.ObjectMeta{Name: foo.Spec.DeploymentName, Namespace: foo.Namespace}}
	_, err := client.CreateOrUpdate(ctx, deployment, func() error {
		if deployment.UID == "" {
			return describe(foo, deployment)
		}
		if !operetta.IsControlledBy(deployment, foo) {
			message := fmt.Sprintf("Resource %q already exists and is not managed by Foo", deployment.Name)
			client.Event(foo, operetta.Warning, "ErrResourceExists", message)
			return fmt.Errorf("%s", message)
		}
		if foo.Spec.Replicas != nil {
			deployment.Spec.Replicas = foo.Spec.Replicas
		}
		return nil
	})
	if err != nil {
		return operetta.Done(), err
	}

	status := FooStatus{AvailableReplicas: deployment.Status.AvailableReplicas}
	if foo.Status == nil || *foo.Status != status {
		foo.Status = &status
		if err := client.UpdateStatus(ctx, foo); err != nil {
			return operetta.Done(), err
		}
	}
	client.Event(foo, operetta.Normal, "Synced", "Foo synced successfully")
	return operetta.Done(), nil
}

// describe sets the spec of a Foo's new Deployment, and makes the Foo its controlling owner.
func describe(foo *Foo, deployment *Deployment) error {
	labels := map[string]string{"app": "nginx", "controller": foo.Name}
	deployment.Spec.Replicas = foo.Spec.Replicas
	deployment.Spec.Selector.MatchLabels = labels
	deployment.Spec.Template.Metadata.Labels = labels
	deployment.Spec.Template.Spec.Containers = []Container{{Name: "nginx", Image: "nginx:latest"}}
	return operetta.SetControllerReference(foo, deployment)
}

// Kubernetes' sample-controller as an Operetta plugin: each Foo has a Deployment of the name and size it asks for, and
// reports in its status how many replicas are available.
package main

import (
	"context"
	"fmt"
	"log/slog"

	"operetta.dev/sdk-go"
)

func init() { operetta.Serve(plugin) }

func main() {}

// plugin watches Foos of the Plugin's own namespace, and the Deployments that they control. A Deployment's periodic
// resync, its resourceVersion unchanged, is no reason to reconcile.
func plugin() *operetta.Plugin {
	deployments := operetta.Of[Deployment]().WithPredicates(operetta.ResourceVersionChanged)
	return operetta.NewPlugin(
		operetta.For("foo", reconcile).WhenGone(gone).Owns(deployments).Workers(2).InOwnNamespace(),
	)
}

// gone has nothing to do: the Foo's Deployment goes by garbage collection.
func gone(ctx context.Context, client *operetta.Client) (operetta.Result, error) {
	slog.Info("Foo in work queue no longer exists", "key", operetta.RequestFrom(ctx).Key)
	return operetta.Done(), nil
}

func reconcile(ctx context.Context, client *operetta.Client, foo *Foo) (operetta.Result, error) {
	if foo.Spec.DeploymentName == "" {
		return operetta.Done(), operetta.Terminalf("%s: deployment name must be specified", operetta.KeyOf(foo))
	}

	deployment := &Deployment{ObjectMeta: operetta.ObjectMeta{Name: foo.Spec.DeploymentName, Namespace: foo.Namespace}}
	result, err := client.CreateOrUpdate(ctx, deployment, func() error {
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
	if result != operetta.Unchanged {
		slog.Info("Deployment written", "deployment", deployment.Name, "result", result)
	}

	if err := writeStatus(ctx, client, foo, deployment); err != nil {
		return operetta.Done(), err
	}
	client.Event(foo, operetta.Normal, "Synced", "Foo synced successfully")
	return operetta.Done(), nil
}

// writeStatus writes the status if it is to change: the API server would drop a write that changes nothing all the same.
func writeStatus(ctx context.Context, client *operetta.Client, foo *Foo, deployment *Deployment) error {
	status := FooStatus{AvailableReplicas: deployment.Status.AvailableReplicas}
	if foo.Status != nil && *foo.Status == status {
		return nil
	}
	foo.Status = &status
	return client.UpdateStatus(ctx, foo)
}

// describe fills a new Deployment in, as the Foo asks for it, controlled by the Foo.
func describe(foo *Foo, deployment *Deployment) error {
	labels := map[string]string{"app": "nginx", "controller": foo.Name}
	deployment.Spec = DeploymentSpec{
		Replicas: foo.Spec.Replicas,
		Selector: LabelSelector{MatchLabels: labels},
		Template: PodTemplate{
			Metadata: operetta.ObjectMeta{Labels: labels},
			Spec:     PodSpec{Containers: []Container{{Name: "nginx", Image: "nginx:latest"}}},
		},
	}
	return operetta.SetControllerReference(foo, deployment)
}

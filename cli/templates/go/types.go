package main

import "operetta.dev/sdk-go"

// {{kind}} is the kind of {{group}}/{{version}}, as crd.yaml describes it.
type {{kind}} struct {
	operetta.TypeMeta
	operetta.ObjectMeta `json:"metadata"`
	Spec                {{kind}}Spec   `json:"spec"`
	Status              {{kind}}Status `json:"status,omitzero"`
}

// {{kind}}Spec is what is wanted.
type {{kind}}Spec struct {
	// Message is the text that the ConfigMap is to hold.
	Message string `json:"message"`
}

// {{kind}}Status is what there is.
type {{kind}}Status struct {
	// ConfigMap is the name of the one that holds the text.
	ConfigMap string `json:"configMap,omitempty"`
}

// GroupVersionKind ties the type to its kind.
func (*{{kind}}) GroupVersionKind() operetta.GroupVersionKind {
	return operetta.GVK("{{group}}/{{version}}", "{{kind}}")
}

// configMap is what the plugin uses of v1 ConfigMap; other fields stay as they are.
type configMap struct {
	operetta.TypeMeta
	operetta.ObjectMeta `json:"metadata"`
	Data                map[string]string `json:"data,omitempty"`
}

// GroupVersionKind ties the type to its kind.
func (*configMap) GroupVersionKind() operetta.GroupVersionKind {
	return operetta.GVK("v1", "ConfigMap")
}

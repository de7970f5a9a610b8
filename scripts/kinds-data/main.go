// Command kinds-data prints the Go types of the built-in kinds for apiserver: each struct's JSON fields in their
// order, with their types. The kinds are those of the documents of aggregated discovery given as arguments.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	registration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// groupKind is the responseKind of a resource or subresource in a discovery document.
type groupKind struct{ Group, Version, Kind string }

type discovery struct {
	Items []struct {
		Metadata struct{ Name string }
		Versions []struct {
			Version   string
			Resources []struct {
				ResponseKind groupKind
				Subresources []struct{ ResponseKind groupKind }
			}
		}
	}
}

// printer collects the lines of the types that it has met.
type printer struct {
	types map[string][]string
}

func main() {
	all := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		scheme.AddToScheme, extensions.AddToScheme, registration.AddToScheme,
	} {
		if err := add(all); err != nil {
			fail(err)
		}
	}
	out := &printer{types: map[string][]string{}}
	kinds := map[string]string{}
	for _, file := range os.Args[1:] {
		for gvk := range served(file) {
			object, err := all.New(gvk)
			if err != nil {
				continue
			}
			version := gvk.GroupVersion().String()
			kinds[version+" "+gvk.Kind] = out.name(reflect.TypeOf(object).Elem())
		}
	}
	out.print(kinds)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "kinds-data:", err)
	os.Exit(1)
}

// served returns the kinds of a discovery document.
func served(file string) map[schema.GroupVersionKind]bool {
	text, err := os.ReadFile(file)
	if err != nil {
		fail(err)
	}
	var document discovery
	if err := json.Unmarshal(text, &document); err != nil {
		fail(err)
	}
	kinds := map[schema.GroupVersionKind]bool{}
	for _, group := range document.Items {
		for _, version := range group.Versions {
			add := func(kind groupKind) {
				// The group and version are left out where they are those of the document.
				if kind.Version == "" {
					kind.Group, kind.Version = group.Metadata.Name, version.Version
				}
				kinds[schema.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind}] = true
			}
			for _, resource := range version.Resources {
				add(resource.ResponseKind)
				for _, sub := range resource.Subresources {
					add(sub.ResponseKind)
				}
			}
		}
	}
	return kinds
}

// print writes the kinds and then the types, each in the order of their names.
func (p *printer) print(kinds map[string]string) {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for _, kind := range keys(kinds) {
		fmt.Fprintln(out, "@"+kind, kinds[kind])
	}
	for _, name := range keys(p.types) {
		fmt.Fprintln(out, "="+name, strings.Join(p.types[name], "\n"))
	}
}

func keys[V any](m map[string]V) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// name returns the expression of a type, and records its definition.
func (p *printer) name(t reflect.Type) string {
	if t.Name() != "" && t.PkgPath() != "" {
		return p.named(t)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + p.name(t.Elem())
	case reflect.Slice:
		return "[]" + p.name(t.Elem())
	case reflect.Map:
		return "map[" + p.name(t.Key()) + "]" + p.name(t.Elem())
	}
	return t.String()
}

// named returns the name of a defined type: its package's name, behind its group's where the package is a version.
func (p *printer) named(t reflect.Type) string {
	path := strings.Split(t.PkgPath(), "/")
	name := t.String()
	if strings.HasPrefix(name, "v1.") || strings.HasPrefix(name, "v2.") {
		name = path[len(path)-2] + "/" + name
	}
	if _, seen := p.types[name]; seen {
		return name
	}
	p.types[name] = nil
	unmarshaler := reflect.TypeFor[json.Unmarshaler]()
	switch {
	case reflect.PointerTo(t).Implements(unmarshaler):
		p.types[name] = []string{"custom"}
	case t.Kind() == reflect.Struct:
		p.types[name] = append([]string{"struct"}, p.fields(t, "")...)
	case t.Kind() == reflect.Slice:
		p.types[name] = []string{"[]" + p.name(t.Elem())}
	case t.Kind() == reflect.Map:
		p.types[name] = []string{"map[" + p.name(t.Key()) + "]" + p.name(t.Elem())}
	default:
		p.types[name] = []string{t.Kind().String()}
	}
	return name
}

// fields returns a line for each JSON field of a struct: its name, its type, o (omitempty) or z (omitzero), and the
// names of the embedded structs that it comes from, which the decoder's errors contain.
func (p *printer) fields(t reflect.Type, embedded string) []string {
	var lines []string
	for i := range t.NumField() {
		field := t.Field(i)
		tag := field.Tag.Get("json")
		options := strings.Split(tag, ",")
		switch {
		case tag == "-" || !field.IsExported():
		case options[0] == "" && field.Anonymous:
			lines = append(lines, p.fields(field.Type, embedded+field.Name+".")...)
		default:
			name := options[0]
			if name == "" {
				name = field.Name
			}
			flags := "-"
			for _, option := range options[1:] {
				if option == "omitempty" || option == "omitzero" {
					flags += map[string]string{"omitempty": "o", "omitzero": "z"}[option]
				}
			}
			lines = append(lines, strings.TrimSpace(name+" "+p.name(field.Type)+" "+flags+" "+embedded))
		}
	}
	return lines
}

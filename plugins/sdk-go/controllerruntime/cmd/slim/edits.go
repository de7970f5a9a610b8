package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
)

// edit changes a file's text; an empty result leaves the file out. It fails when the file is not as expected.
type edit func(text string) (string, error)

// editsFor returns the edits by import path and file, for a program that needs these API groups.
func editsFor(groups map[string]bool) map[string]edit {
	return map[string]edit{
		clientGo + "/kubernetes/scheme/register.go": func(text string) (string, error) {
			return checked(schemeOf(text, groups))
		},
		clientGo + "/kubernetes/clientset.go": func(text string) (string, error) {
			return checked(clientsetOf(text, groups))
		},
		clientGo + "/tools/leaderelection/leasecandidate.go": func(string) (string, error) { return "", nil },
		apimachinery + "/pkg/runtime/serializer/codec_factory.go": func(text string) (string, error) {
			return checked(withoutProtobuf(text))
		},
	}
}

// checked returns the text, or an error if the edit failed or its result is not Go.
func checked(text string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "", text, 0); err != nil {
		return "", fmt.Errorf("its form is not the one that slim knows: %w", err)
	}
	return text, nil
}

var schemeImport = regexp.MustCompile(`(?m)^\t(\w+) "k8s\.io/api/([^"]+)"\n`)

// schemeOf removes unused API groups from the scheme.
func schemeOf(text string, groups map[string]bool) (string, error) {
	return withoutGroups(text, schemeImport, groups, []string{`(?m)^\tALIAS\.AddToScheme,\n`})
}

var typedImport = regexp.MustCompile(`(?m)^\t(\w+) "k8s\.io/client-go/kubernetes/typed/([^"]+)"\n`)

// clientsetOf removes unused API groups from the clientset.
func clientsetOf(text string, groups map[string]bool) (string, error) {
	return withoutGroups(text, typedImport, groups, []string{
		`(?m)^\t\w+\(\) ALIAS\.\w+\n`, // the method in the interface
		`(?m)^\t\w+ +\*ALIAS\.\w+\n`,  // the field in the struct
		`(?m)^// \w+ retrieves the \w+\nfunc \(c \*Clientset\) \w+\(\) ALIAS\.\w+ \{\n[^}]*\n\}\n`, // its implementation
		`(?m)^\tcs\.\w+, err = ALIAS\.NewForConfigAndClient\([^)]*\)\n\tif err != nil \{\n\t\treturn nil, err\n\t\}\n`,
		`(?m)^\tcs\.\w+ = ALIAS\.New\(c\)\n`,
	})
}

// withoutGroups removes the imports of other groups and the code that uses them. The patterns in uses match that code;
// ALIAS in a pattern is the import's name.
func withoutGroups(text string, imported *regexp.Regexp, groups map[string]bool, uses []string) (string, error) {
	imports := imported.FindAllStringSubmatch(text, -1)
	if len(imports) == 0 {
		return "", fmt.Errorf("no import like %s found", imported)
	}
	for _, found := range imports {
		line, alias, group := found[0], found[1], found[2]
		if groups[group] {
			continue
		}
		text = strings.Replace(text, line, "", 1)
		for _, pattern := range uses {
			text = regexp.MustCompile(strings.ReplaceAll(pattern, "ALIAS", alias)).ReplaceAllString(text, "")
		}
		if strings.Contains(text, alias+".") {
			return "", fmt.Errorf("%s is used in a place that slim does not know", alias)
		}
	}
	return text, nil
}

// withoutProtobuf removes the protobuf serializer from every codec factory. The host uses JSON.
func withoutProtobuf(text string) (string, error) {
	for _, pattern := range []string{
		`\t"k8s\.io/apimachinery/pkg/runtime/serializer/protobuf"\n`,
		`(?s)\tprotoSerializer := protobuf\..*?protoRawSerializer := [^\n]*\n`,
		`(?s)\t\t\{\n\t\t\tMediaType: +runtime\.ContentTypeProtobuf,.*?\n\t\t\},\n`,
	} {
		found := regexp.MustCompile(pattern)
		if !found.MatchString(text) {
			return "", fmt.Errorf("%s not found", pattern)
		}
		text = found.ReplaceAllString(text, "")
	}
	return text, nil
}

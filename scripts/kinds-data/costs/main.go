// Command costs estimates the costs of CEL rules as kube-apiserver does, for apiserver/tests/crd/costs.json. It
// reads {"schema": …, "costs": [[rule, …], …]} from the standard input, and writes the same with costs: [rule, cost].
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiserver/pkg/cel/environment"
)

func main() {
	var table struct {
		Schema json.RawMessage
		Costs  [][]any
	}
	check(json.NewDecoder(os.Stdin).Decode(&table))
	var props v1.JSONSchemaProps
	check(json.Unmarshal(table.Schema, &props))
	for _, cost := range table.Costs {
		props.XValidations = append(props.XValidations, v1.ValidationRule{Rule: cost[0].(string)})
	}
	var internal apiextensions.JSONSchemaProps
	check(v1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&props, &internal, nil))
	structural, err := schema.NewStructural(&internal)
	check(err)
	env := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	results, err := cel.Compile(structural, model.SchemaDeclType(structural, false), 1000000, env, cel.NewExpressionsEnvLoader())
	check(err)
	fmt.Printf("{\"schema\":%s,\n\"costs\":[", table.Schema)
	for i, result := range results {
		rule := props.XValidations[i].Rule
		if result.Error != nil {
			log.Fatalf("%s: %s", rule, result.Error.Detail)
		}
		separator := ","
		if i == 0 {
			separator = ""
		}
		fmt.Printf("%s\n[%s,%d]", separator, quote(rule), result.MaxCost)
	}
	fmt.Println("\n]}")
}

func quote(text string) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	check(encoder.Encode(text))
	return strings.TrimSpace(out.String())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

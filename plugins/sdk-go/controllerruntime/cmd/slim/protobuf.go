package main

import (
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

// protobufFuncs are the functions of a type's generated protobuf code, except String and Reset.
var protobufFuncs = []string{
	"Marshal", "MarshalTo", "MarshalToSizedBuffer", "Unmarshal", "Size", "skipGenerated", "encodeVarintGenerated",
	"sovGenerated", "sozGenerated",
}

// stringsOnly reduces a generated.pb.go to String and Reset.
func stringsOnly(text string) (string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", text, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	file.Decls = slices.DeleteFunc(file.Decls, func(of ast.Decl) bool {
		switch of := of.(type) {
		case *ast.FuncDecl:
			return slices.Contains(protobufFuncs, of.Name.Name)
		case *ast.GenDecl:
			return of.Tok == token.VAR
		}
		return false
	})
	used := map[string]bool{}
	for _, of := range file.Decls {
		if general, ok := of.(*ast.GenDecl); ok && general.Tok == token.IMPORT {
			continue
		}
		ast.Inspect(of, func(node ast.Node) bool {
			if name, ok := node.(*ast.Ident); ok {
				used[name.Name] = true
			}
			return true
		})
	}
	for _, of := range file.Decls {
		general, ok := of.(*ast.GenDecl)
		if !ok || general.Tok != token.IMPORT {
			continue
		}
		general.Specs = slices.DeleteFunc(general.Specs, func(spec ast.Spec) bool {
			of := spec.(*ast.ImportSpec)
			imported, err := strconv.Unquote(of.Path.Value)
			name := path.Base(imported)
			if of.Name != nil {
				name = of.Name.Name
			}
			return err == nil && !used[name]
		})
	}
	file.Comments = nil
	var out strings.Builder
	if err := format.Node(&out, files, file); err != nil {
		return "", fmt.Errorf("its form is not the one that slim knows: %w", err)
	}
	return out.String(), nil
}

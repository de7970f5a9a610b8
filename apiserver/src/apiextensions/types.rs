//! The types of `apiextensions.k8s.io/v1`, as tables for the decoder.

use super::typed::{Field, Presence, Struct, Type};

const fn field(json: &'static str, go: &'static str, ty: Type, presence: Presence) -> Field {
    Field {
        json,
        go,
        ty,
        presence,
    }
}

const fn filled(json: &'static str, go: &'static str, ty: Type) -> Field {
    field(json, go, ty, Presence::Filled)
}

const fn given(json: &'static str, go: &'static str, ty: Type) -> Field {
    field(json, go, ty, Presence::Given)
}

const fn always(json: &'static str, go: &'static str, ty: Type) -> Field {
    field(json, go, ty, Presence::Always)
}

static TEXT: Type = Type::Text;
static JSON: Type = Type::Json;
static SCHEMA_TYPE: Type = Type::Struct(&SCHEMA);

/// A JSON schema.
pub static SCHEMA: Struct = Struct {
    name: "JSONSchemaProps",
    fields: &[
        filled("id", "ID", Type::Text),
        filled("$schema", "Schema", Type::Text),
        given("$ref", "Ref", Type::Text),
        filled("description", "Description", Type::Text),
        filled("type", "Type", Type::Text),
        filled("nullable", "Nullable", Type::Bool),
        filled("format", "Format", Type::Text),
        filled("title", "Title", Type::Text),
        given("default", "Default", Type::Json),
        given("maximum", "Maximum", Type::Float),
        filled("exclusiveMaximum", "ExclusiveMaximum", Type::Bool),
        given("minimum", "Minimum", Type::Float),
        filled("exclusiveMinimum", "ExclusiveMinimum", Type::Bool),
        given("maxLength", "MaxLength", Type::Int64),
        given("minLength", "MinLength", Type::Int64),
        filled("pattern", "Pattern", Type::Text),
        given("maxItems", "MaxItems", Type::Int64),
        given("minItems", "MinItems", Type::Int64),
        filled("uniqueItems", "UniqueItems", Type::Bool),
        given("multipleOf", "MultipleOf", Type::Float),
        filled("enum", "Enum", Type::List(&JSON)),
        given("maxProperties", "MaxProperties", Type::Int64),
        given("minProperties", "MinProperties", Type::Int64),
        filled("required", "Required", Type::List(&TEXT)),
        given("items", "Items", Type::SchemaOrList(&SCHEMA)),
        filled("allOf", "AllOf", Type::List(&SCHEMA_TYPE)),
        filled("oneOf", "OneOf", Type::List(&SCHEMA_TYPE)),
        filled("anyOf", "AnyOf", Type::List(&SCHEMA_TYPE)),
        given("not", "Not", Type::Struct(&SCHEMA)),
        filled("properties", "Properties", Type::Map(&SCHEMA_TYPE)),
        given(
            "additionalProperties",
            "AdditionalProperties",
            Type::SchemaOrBool(&SCHEMA),
        ),
        filled(
            "patternProperties",
            "PatternProperties",
            Type::Map(&SCHEMA_TYPE),
        ),
        filled("dependencies", "Dependencies", Type::Map(&SCHEMA_OR_TEXTS)),
        given(
            "additionalItems",
            "AdditionalItems",
            Type::SchemaOrBool(&SCHEMA),
        ),
        filled("definitions", "Definitions", Type::Map(&SCHEMA_TYPE)),
        given("externalDocs", "ExternalDocs", Type::Struct(&EXTERNAL_DOCS)),
        given("example", "Example", Type::Json),
        given(
            "x-kubernetes-preserve-unknown-fields",
            "XPreserveUnknownFields",
            Type::Bool,
        ),
        filled(
            "x-kubernetes-embedded-resource",
            "XEmbeddedResource",
            Type::Bool,
        ),
        filled("x-kubernetes-int-or-string", "XIntOrString", Type::Bool),
        filled(
            "x-kubernetes-list-map-keys",
            "XListMapKeys",
            Type::List(&TEXT),
        ),
        given("x-kubernetes-list-type", "XListType", Type::Text),
        given("x-kubernetes-map-type", "XMapType", Type::Text),
        filled(
            "x-kubernetes-validations",
            "XValidations",
            Type::List(&RULE_TYPE),
        ),
    ],
};

static SCHEMA_OR_TEXTS: Type = Type::SchemaOrTexts(&SCHEMA);
/// A rule of `x-kubernetes-validations`.
pub static RULE_TYPE: Type = Type::Struct(&RULE);

static RULE: Struct = Struct {
    name: "ValidationRule",
    fields: &[
        always("rule", "Rule", Type::Text),
        filled("message", "Message", Type::Text),
        filled("messageExpression", "MessageExpression", Type::Text),
        given("reason", "Reason", Type::Text),
        filled("fieldPath", "FieldPath", Type::Text),
        given("optionalOldSelf", "OptionalOldSelf", Type::Bool),
    ],
};

static EXTERNAL_DOCS: Struct = Struct {
    name: "ExternalDocumentation",
    fields: &[
        filled("description", "Description", Type::Text),
        filled("url", "URL", Type::Text),
    ],
};

static NAMES: Struct = Struct {
    name: "CustomResourceDefinitionNames",
    fields: &[
        always("plural", "Plural", Type::Text),
        filled("singular", "Singular", Type::Text),
        filled("shortNames", "ShortNames", Type::List(&TEXT)),
        always("kind", "Kind", Type::Text),
        filled("listKind", "ListKind", Type::Text),
        filled("categories", "Categories", Type::List(&TEXT)),
    ],
};

static COLUMN: Struct = Struct {
    name: "CustomResourceColumnDefinition",
    fields: &[
        always("name", "Name", Type::Text),
        always("type", "Type", Type::Text),
        filled("format", "Format", Type::Text),
        filled("description", "Description", Type::Text),
        filled("priority", "Priority", Type::Int32),
        always("jsonPath", "JSONPath", Type::Text),
    ],
};
static COLUMN_TYPE: Type = Type::Struct(&COLUMN);

static SELECTABLE: Struct = Struct {
    name: "SelectableField",
    fields: &[always("jsonPath", "JSONPath", Type::Text)],
};
static SELECTABLE_TYPE: Type = Type::Struct(&SELECTABLE);

static VALIDATION: Struct = Struct {
    name: "CustomResourceValidation",
    fields: &[given(
        "openAPIV3Schema",
        "OpenAPIV3Schema",
        Type::Struct(&SCHEMA),
    )],
};

static STATUS_SUBRESOURCE: Struct = Struct {
    name: "CustomResourceSubresourceStatus",
    fields: &[],
};

static SCALE: Struct = Struct {
    name: "CustomResourceSubresourceScale",
    fields: &[
        always("specReplicasPath", "SpecReplicasPath", Type::Text),
        always("statusReplicasPath", "StatusReplicasPath", Type::Text),
        given("labelSelectorPath", "LabelSelectorPath", Type::Text),
    ],
};

static SUBRESOURCES: Struct = Struct {
    name: "CustomResourceSubresources",
    fields: &[
        given("status", "Status", Type::Struct(&STATUS_SUBRESOURCE)),
        given("scale", "Scale", Type::Struct(&SCALE)),
    ],
};

static VERSION: Struct = Struct {
    name: "CustomResourceDefinitionVersion",
    fields: &[
        always("name", "Name", Type::Text),
        always("served", "Served", Type::Bool),
        always("storage", "Storage", Type::Bool),
        filled("deprecated", "Deprecated", Type::Bool),
        given("deprecationWarning", "DeprecationWarning", Type::Text),
        given("schema", "Schema", Type::Struct(&VALIDATION)),
        given("subresources", "Subresources", Type::Struct(&SUBRESOURCES)),
        filled(
            "additionalPrinterColumns",
            "AdditionalPrinterColumns",
            Type::List(&COLUMN_TYPE),
        ),
        filled(
            "selectableFields",
            "SelectableFields",
            Type::List(&SELECTABLE_TYPE),
        ),
    ],
};
static VERSION_TYPE: Type = Type::Struct(&VERSION);
/// The list of versions of a definition.
pub static VERSIONS_TYPE: Type = Type::List(&VERSION_TYPE);
/// A schema as a type.
pub static OPENAPI_SCHEMA_TYPE: Type = Type::Struct(&SCHEMA);

static SERVICE: Struct = Struct {
    name: "ServiceReference",
    fields: &[
        always("namespace", "Namespace", Type::Text),
        always("name", "Name", Type::Text),
        given("path", "Path", Type::Text),
        given("port", "Port", Type::Int32),
    ],
};

static CLIENT_CONFIG: Struct = Struct {
    name: "WebhookClientConfig",
    fields: &[
        given("url", "URL", Type::Text),
        given("service", "Service", Type::Struct(&SERVICE)),
        filled("caBundle", "CABundle", Type::Text),
    ],
};

static WEBHOOK: Struct = Struct {
    name: "WebhookConversion",
    fields: &[
        given("clientConfig", "ClientConfig", Type::Struct(&CLIENT_CONFIG)),
        always(
            "conversionReviewVersions",
            "ConversionReviewVersions",
            Type::List(&TEXT),
        ),
    ],
};

static CONVERSION: Struct = Struct {
    name: "CustomResourceConversion",
    fields: &[
        always("strategy", "Strategy", Type::Text),
        given("webhook", "Webhook", Type::Struct(&WEBHOOK)),
    ],
};

static SPEC: Struct = Struct {
    name: "CustomResourceDefinitionSpec",
    fields: &[
        always("group", "Group", Type::Text),
        always("names", "Names", Type::Struct(&NAMES)),
        always("scope", "Scope", Type::Text),
        always("versions", "Versions", Type::List(&VERSION_TYPE)),
        given("conversion", "Conversion", Type::Struct(&CONVERSION)),
        filled("preserveUnknownFields", "PreserveUnknownFields", Type::Bool),
    ],
};

static CONDITION: Struct = Struct {
    name: "CustomResourceDefinitionCondition",
    fields: &[
        always("type", "Type", Type::Text),
        always("status", "Status", Type::Text),
        always("lastTransitionTime", "LastTransitionTime", Type::Time),
        filled("reason", "Reason", Type::Text),
        filled("message", "Message", Type::Text),
        filled("observedGeneration", "ObservedGeneration", Type::Int64),
    ],
};
static CONDITION_TYPE: Type = Type::Struct(&CONDITION);

static STATUS: Struct = Struct {
    name: "CustomResourceDefinitionStatus",
    fields: &[
        always("conditions", "Conditions", Type::List(&CONDITION_TYPE)),
        always("acceptedNames", "AcceptedNames", Type::Struct(&NAMES)),
        always("storedVersions", "StoredVersions", Type::List(&TEXT)),
        filled("observedGeneration", "ObservedGeneration", Type::Int64),
    ],
};

/// A CustomResourceDefinition.
pub static DEFINITION: Struct = Struct {
    name: "CustomResourceDefinition",
    fields: &[
        filled("apiVersion", "APIVersion", Type::Text),
        filled("kind", "Kind", Type::Text),
        always("metadata", "ObjectMeta", Type::Struct(&OBJECT_META)),
        always("spec", "Spec", Type::Struct(&SPEC)),
        always("status", "Status", Type::Struct(&STATUS)),
    ],
};

static OWNER: Struct = Struct {
    name: "OwnerReference",
    fields: &[
        always("apiVersion", "apiVersion", Type::Text),
        always("kind", "kind", Type::Text),
        always("name", "name", Type::Text),
        always("uid", "uid", Type::Text),
        given("controller", "controller", Type::Bool),
        given("blockOwnerDeletion", "blockOwnerDeletion", Type::Bool),
    ],
};
static OWNER_TYPE: Type = Type::Struct(&OWNER);

static MANAGED: Struct = Struct {
    name: "ManagedFieldsEntry",
    fields: &[
        filled("manager", "manager", Type::Text),
        filled("operation", "operation", Type::Text),
        filled("apiVersion", "apiVersion", Type::Text),
        given("time", "time", Type::Time),
        filled("fieldsType", "fieldsType", Type::Text),
        given("fieldsV1", "fieldsV1", Type::Json),
        filled("subresource", "subresource", Type::Text),
    ],
};
static MANAGED_TYPE: Type = Type::Struct(&MANAGED);

/// The metadata of an object.
pub static OBJECT_META: Struct = Struct {
    name: "ObjectMeta",
    fields: &[
        filled("name", "name", Type::Text),
        filled("generateName", "generateName", Type::Text),
        filled("namespace", "namespace", Type::Text),
        filled("selfLink", "selfLink", Type::Text),
        filled("uid", "uid", Type::Text),
        filled("resourceVersion", "resourceVersion", Type::Text),
        filled("generation", "generation", Type::Int64),
        given("creationTimestamp", "creationTimestamp", Type::Time),
        given("deletionTimestamp", "deletionTimestamp", Type::Time),
        given(
            "deletionGracePeriodSeconds",
            "deletionGracePeriodSeconds",
            Type::Int64,
        ),
        filled("labels", "labels", Type::Map(&TEXT)),
        filled("annotations", "annotations", Type::Map(&TEXT)),
        filled(
            "ownerReferences",
            "ownerReferences",
            Type::List(&OWNER_TYPE),
        ),
        filled("finalizers", "finalizers", Type::List(&TEXT)),
        filled("managedFields", "managedFields", Type::List(&MANAGED_TYPE)),
    ],
};

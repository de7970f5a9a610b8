//! A version of a custom resource: decoding, defaulting and validation of its objects.

use super::{
    defaults, embedded,
    finalizers::finalizer_warnings,
    model::{Definition, Version},
    openapi, openapi_v2, prune,
    request::{DecodedObject, Target, differs_without_metadata, prepare_status_update},
    schema::Schema,
    table::Columns,
    validate::Validator,
    validations::evaluate::Rules,
    version_name,
};
use crate::{
    apimachinery::{
        field::{FieldError, Path},
        json,
        metadata::{self, Metadata},
        options::FieldValidation,
        status::Status,
    },
    golang,
    server::Admitted,
};
use std::sync::Arc;

use serde_json::{Value, json};

/// A version of a custom resource.
#[derive(Debug)]
pub struct CrdVersion {
    definition: Arc<Definition>,
    at: usize,
    /// The schema as it was given, as JSON: it is read for documents only, and its tree is ten times
    /// as large.
    raw_schema: Box<[u8]>,
    /// The schema with pruned defaults, by which objects are pruned and defaulted.
    pub(super) schema: Schema,
    pub(super) rules: Rules,
    pub(super) validator: Validator,
    columns: Columns,
}

impl CrdVersion {
    /// Prepares a version of a definition for serving.
    pub(super) fn new(definition: Arc<Definition>, raw: &Value, at: usize) -> Option<Self> {
        let version = definition.spec.versions.get(at)?;
        let given = version.schema().cloned().unwrap_or_default();
        let schema = if definition.spec.preserve_unknown_fields {
            given
        } else {
            defaults::prune_defaults(&given)
        };
        let rules = Rules::compile(&schema);
        let columns = Columns::of(version);

        let place = format!("/spec/versions/{at}/schema/openAPIV3Schema");
        let raw_schema = json::to_vec(raw.pointer(&place).unwrap_or(&Value::Null));
        Some(Self {
            raw_schema: raw_schema.into(),
            schema,
            rules,
            columns,
            validator: Validator::default(),
            definition,
            at,
        })
    }

    fn version(&self) -> &Version {
        &self.definition.spec.versions[self.at]
    }

    /// Returns the name of the version.
    pub fn name(&self) -> &str {
        &self.version().name
    }

    /// Returns the API version of its objects.
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.definition.spec.group, self.name())
    }

    /// Returns the kind of its objects.
    pub fn kind(&self) -> &str {
        &self.definition.spec.names.kind
    }

    /// Reports whether objects are in namespaces.
    pub fn is_namespaced(&self) -> bool {
        self.definition.spec.scope == "Namespaced"
    }

    /// Reports whether the version is served.
    pub fn is_served(&self) -> bool {
        self.version().served
    }

    /// Reports whether objects are stored in this version.
    pub fn is_storage(&self) -> bool {
        self.version().storage
    }

    /// Reports whether there is a status subresource.
    pub fn has_status(&self) -> bool {
        self.version().has_status()
    }

    /// Returns the places of the fields of `/scale`.
    pub fn scale(&self) -> Option<&super::model::Scale> {
        self.version().scale()
    }

    /// Returns the columns of its tables.
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Returns the warning to each request, if the version is deprecated.
    pub fn deprecation_warning(&self) -> Option<String> {
        let version = self.version();
        version.deprecated.then(|| {
            version
                .deprecation_warning
                .clone()
                .unwrap_or_else(|| version_name::deprecation(&self.definition.spec, version))
        })
    }

    /// Returns the OpenAPI v3 document with the version's schema and operations.
    pub fn openapi_v3(&self) -> Value {
        openapi::document(&self.definition, self.version(), &self.raw_schema())
    }

    /// Returns the definitions in the OpenAPI document of version 2 of its objects and lists, by
    /// their names.
    pub fn openapi_v2(&self) -> [(String, Value); 2] {
        openapi_v2::definitions(&self.definition, self.version(), &self.raw_schema())
    }

    fn raw_schema(&self) -> Value {
        json::read(&self.raw_schema).unwrap_or_default()
    }

    /// Returns the names of the fields that field selectors can use.
    pub fn selectable_field_names(&self) -> impl Iterator<Item = &str> {
        let paths = self
            .version()
            .selectable_fields
            .iter()
            .map(|field| field.json_path.as_str());

        paths.map(|path| path.strip_prefix('.').unwrap_or(path))
    }

    /// Returns the fields that field selectors can use, with their values in an object.
    pub fn selectable_fields(&self, object: &Value) -> Vec<(String, String)> {
        let fields = self.version().selectable_fields.iter();
        fields
            .map(|field| {
                let name = field
                    .json_path
                    .strip_prefix('.')
                    .unwrap_or(&field.json_path);
                let value = name
                    .split('.')
                    .try_fold(object, |value, segment| value.get(segment));
                let text = value
                    .filter(|value| !value.is_null())
                    .map(golang::plain)
                    .unwrap_or_default();

                (name.to_owned(), text)
            })
            .collect()
    }

    fn cannot_be_handled(&self, error: &str) -> Status {
        let kind = self.kind();
        let version = self.name();
        Status::bad_request(format!(
            "{kind} in version {} cannot be handled as a {kind}: {error}",
            golang::quote(version)
        ))
    }

    /// Decodes an object: unknown fields are pruned, nulls are removed, and defaults are set.
    ///
    /// # Errors
    /// Returns the message of Go's decoder if the metadata of the object, or of a resource in it,
    /// is malformed.
    pub fn decode(&self, mut object: Value) -> Result<DecodedObject, String> {
        let mut unknown_fields = embedded::decode_metadata(&mut object, &Path::root())?;
        if !self.definition.spec.preserve_unknown_fields {
            unknown_fields.extend(prune::prune(&mut object, Some(&self.schema), true));
            let metadata = object.get_mut("metadata").map(Value::take);
            defaults::prune_nulls(&mut object, Some(&self.schema));
            if let Some(metadata) = metadata {
                object["metadata"] = metadata;
            }
        }

        let found = embedded::coerce(&mut object, &self.schema, false)
            .map_err(|error| error.to_string())?;
        unknown_fields.extend(found);
        defaults::apply(&mut object, &self.schema);

        Ok(DecodedObject {
            object,
            unknown_fields,
        })
    }

    /// Sets the defaults of an object that server-side apply made. A field that is null and may not
    /// be stays, so that validation refuses it.
    pub fn complete_applied(&self, mut object: Value) -> Value {
        defaults::apply(&mut object, &self.schema);
        object
    }

    /// Converts an object of another version of the same resource: its fields stay as far as this
    /// version has them, and this version's defaults are set. The real server does so with each
    /// object on its way to and from the store.
    pub fn convert(&self, mut object: Value) -> Value {
        object["apiVersion"] = json!(self.api_version());
        if !self.definition.spec.preserve_unknown_fields {
            prune::prune(&mut object, Some(&self.schema), true);
            let metadata = object.get_mut("metadata").map(Value::take);
            defaults::prune_nulls(&mut object, Some(&self.schema));
            if let Some(metadata) = metadata {
                object["metadata"] = metadata;
            }
        }

        defaults::apply(&mut object, &self.schema);
        object
    }

    /// Treats unknown fields as a request wants it, and returns the warnings.
    ///
    /// # Errors
    /// Returns a bad request if there are unknown fields and the request wants none.
    pub fn check_unknown_fields(
        &self,
        found: &[String],
        wanted: FieldValidation,
    ) -> Result<Vec<String>, Status> {
        let messages: Vec<_> = found
            .iter()
            .map(|path| format!("unknown field \"{path}\""))
            .collect();

        match wanted {
            FieldValidation::Ignore => Ok(Vec::new()),
            FieldValidation::Warn => Ok(messages),
            FieldValidation::Strict if messages.is_empty() => Ok(Vec::new()),
            FieldValidation::Strict => {
                Err(self
                    .cannot_be_handled(&format!("strict decoding error: {}", messages.join(", "))))
            }
        }
    }

    /// Admits a new object that was decoded and named before: its status is dropped where there is
    /// a status subresource, and it is validated.
    ///
    /// # Errors
    /// Returns a refusal if the object is invalid.
    pub fn admit_create(&self, mut object: Value) -> Result<Admitted, Status> {
        if self.has_status()
            && let Value::Object(fields) = &mut object
        {
            fields.remove("status");
        }

        if !self.is_namespaced() {
            metadata::drop_namespace(&mut object);
        }

        object["metadata"]["generation"] = json!(1);
        self.refuse(&object, self.validate_create(&object))?;

        let mut warnings: Vec<_> = self.deprecation_warning().into_iter().collect();
        warnings.extend(finalizer_warnings(Metadata::of(&object), None));

        let object = self.stored(object);
        Ok(Admitted { object, warnings })
    }

    /// Admits an update of an object that was decoded before.
    ///
    /// # Errors
    /// Returns a refusal if the object is invalid.
    pub fn admit_update(
        &self,
        mut object: Value,
        old: &Value,
        target: Target,
    ) -> Result<Admitted, Status> {
        if !self.is_namespaced() {
            metadata::drop_namespace(&mut object);
        }

        metadata::keep_system_fields(&mut object, old);
        if metadata::text(&object, "resourceVersion").is_empty() {
            self.refuse(&object, vec![metadata::version_required()])?;
        }

        let mut warnings: Vec<_> = self.deprecation_warning().into_iter().collect();
        let (object, errors, ratcheted) = match target {
            Target::Object => {
                let object = self.prepare_update(object, old);
                let (errors, ratcheted) = self.validate_update(&object, old);
                warnings.extend(finalizer_warnings(
                    Metadata::of(&object),
                    Some(Metadata::of(old)),
                ));
                (object, errors, ratcheted)
            }
            Target::Status => {
                let object = prepare_status_update(object, old);
                let (errors, ratcheted) = self.validate_status_update(&object, old);
                (object, errors, ratcheted)
            }
        };

        self.refuse(&object, errors)?;
        warnings.extend(ratcheted);

        let object = self.stored(object);
        Ok(Admitted { object, warnings })
    }

    /// Returns an object as it is read back from the store: with defaults again, e.g. of a status
    /// that was dropped.
    fn stored(&self, mut object: Value) -> Value {
        defaults::apply(&mut object, &self.schema);
        golang::normalize(object)
    }

    fn refuse(&self, object: &Value, causes: Vec<FieldError>) -> Result<(), Status> {
        if causes.is_empty() {
            return Ok(());
        }

        let name = metadata::text(object, "name");
        let group = &self.definition.spec.group;
        Err(Status::invalid(group, self.kind(), name, causes))
    }

    fn prepare_update(&self, mut object: Value, old: &Value) -> Value {
        if self.has_status()
            && let Value::Object(fields) = &mut object
        {
            match old.get("status") {
                Some(status) => drop(fields.insert("status".to_owned(), status.clone())),
                None => drop(fields.remove("status")),
            }
        }

        let generation = metadata::integer(old, "generation").unwrap_or(0);
        if differs_without_metadata(&object, old) {
            object["metadata"]["generation"] = json!(generation + 1);
        }

        object
    }
}

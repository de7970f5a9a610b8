//! The annotation by which a ServiceAccount consents. It permits only digests that it names. Adding
//! a digest permits it, and changes nothing for other plugins.
//!
//! The input: the names of two plugins and the annotation, one on each line.

use operetta_manager::authz::allowed_code::AllowedCode;

use crate::cut;

/// Checks the module's invariants on one input.
pub fn consent(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let (plugin, rest) = cut(text.as_bytes(), b'\n');
    let (other, annotation) = cut(rest, b'\n');
    let part = |bytes| std::str::from_utf8(bytes).expect("a line of UTF-8");
    let (plugin, other, annotation) = (part(plugin), part(other), part(annotation));
    // Only valid names of Plugins are tested.
    let is_name = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    };
    if !is_name(plugin) || !is_name(other) || plugin == other {
        return;
    }
    let digest = format!("sha256:{}", "ab".repeat(32));
    let Ok(Some(code)) = AllowedCode::parse(annotation, plugin) else {
        return;
    };
    if code.is_any() {
        let names_it = annotation
            .split(',')
            .map(str::trim)
            .any(|entry| entry == "*" || entry == plugin);
        assert!(names_it, "{annotation:?} allows any code of {plugin}");
    } else {
        let pin = format!("{plugin}@{digest}");
        assert_eq!(
            code.permits(&digest),
            annotation.split(',').any(|entry| entry.trim() == pin),
            "{annotation:?}"
        );
    }
    let added = code.with(plugin, &digest);
    let after = AllowedCode::parse(&added, plugin)
        .expect("a valid annotation")
        .expect("an entry of the plugin");
    assert!(
        after.permits(&digest) && !after.is_any(),
        "{added:?} does not pin the code"
    );
    let of_other =
        |text: &str| AllowedCode::parse(text, other).map(|code| code.map(|code| code.version()));
    assert_eq!(
        of_other(annotation),
        of_other(&added),
        "{annotation:?} became {added:?}"
    );
}

//! The annotation with which a ServiceAccount consents. It allows no digest that it does not name; a digest that is added is
//! allowed afterwards, and changes nothing for other plugins.
//!
//! The input: two plugins' names and the annotation, each on a line.

use operetta_manager::authz::allowed_code::AllowedCode;

use crate::cut;

/// See the module.
pub fn consent(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (plugin, rest) = cut(text.as_bytes(), b'\n');
    let (other, annotation) = cut(rest, b'\n');
    let part = |bytes| std::str::from_utf8(bytes).expect("a part between line ends");
    let (plugin, other, annotation) = (part(plugin), part(other), part(annotation));
    // As the names of Plugins are.
    let is_name = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    if !is_name(plugin) || !is_name(other) || plugin == other {
        return;
    }
    let digest = format!("sha256:{}", "ab".repeat(32));
    let Ok(Some(code)) = AllowedCode::parse(annotation, plugin) else { return };
    if code.is_any() {
        let names_it = annotation.split(',').map(str::trim).any(|entry| entry == "*" || entry == plugin);
        assert!(names_it, "{annotation:?} allows any code of {plugin}");
    } else {
        let pin = format!("{plugin}@{digest}");
        assert_eq!(code.permits(&digest), annotation.split(',').any(|entry| entry.trim() == pin), "{annotation:?}");
    }
    let added = code.with(plugin, &digest);
    let after = AllowedCode::parse(&added, plugin).expect("it could be read").expect("it names the plugin");
    assert!(after.permits(&digest) && !after.is_any(), "{added:?} does not pin the code");
    let of_other = |text: &str| AllowedCode::parse(text, other).map(|code| code.map(|code| code.version()));
    assert_eq!(of_other(annotation), of_other(&added), "{annotation:?} became {added:?}");
}

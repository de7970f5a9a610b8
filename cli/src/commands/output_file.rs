//! Writing a command's output file, and sizes for people.

use std::path::Path;

use anyhow::{Context, Result};

/// Replaces the file atomically, and creates its folder.
///
/// # Errors
/// Returns an error if the folder or the file cannot be written.
pub fn write(file: &Path, bytes: &[u8]) -> Result<()> {
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));

    let failed = || format!("failed to write {}", file.display());
    std::fs::create_dir_all(folder).with_context(failed)?;

    let mut temporary = tempfile::NamedTempFile::new_in(folder).with_context(failed)?;
    std::io::Write::write_all(&mut temporary, bytes).with_context(failed)?;

    let public = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    temporary
        .as_file()
        .set_permissions(public)
        .with_context(failed)?;

    temporary.persist(file).with_context(failed)?;
    Ok(())
}

/// Formats a number of bytes for people: `93 B`, `93.1 kB`, `4.5 MB`.
pub fn size(bytes: usize) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..999_950 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_replaced_and_its_folder_created() {
        let folder = tempfile::tempdir().expect("folder");
        let file = folder.path().join("build/x.wasm");
        for content in [b"one", b"two"] {
            write(&file, content).expect("written");
            assert_eq!(std::fs::read(&file).expect("read"), content);
        }

        assert_eq!(
            std::fs::read_dir(folder.path().join("build"))
                .expect("folder")
                .count(),
            1
        );
    }

    #[test]
    fn sizes_are_for_people() {
        for (bytes, text) in [
            (93, "93 B"),
            (93_140, "93.1 kB"),
            (999_949, "999.9 kB"),
            (4_512_000, "4.5 MB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}

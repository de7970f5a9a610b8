//! An object in the store: its bytes, or its metadata and the compressed rest.

use std::sync;

use operetta_core::object::{Metadata, Object, RawObject};
use parking_lot::Mutex;
use triomphe::{Arc, HeaderSlice};
use zstd::{
    bulk::{Compressor, Decompressor},
    zstd_safe::CParameter,
};

/// Size of the reference count in an entry's allocation.
const COUNTS: usize = size_of::<usize>();
/// Size of a dictionary in bytes. Larger ones gain little (docs/decisions/0014).
const DICTIONARY: usize = 16 << 10;
/// zstd's default compression level. Higher ones take longer and gain nothing.
const LEVEL: i32 = 3;
/// Maximum size of a packed object, in percent of the plain size. Others stay plain.
const WORTH: usize = 70;
/// Memory zstd needs for decompression, by its own estimate, without the dictionary.
const DECOMPRESSOR: usize = 128 << 10;
/// How many readers are kept for later reads. Further concurrent reads create their own.
const KEPT: usize = 8;
/// Maximum buffer of a kept reader in bytes, so that an object of 3 MiB leaves none behind.
const ROOM: usize = 1 << 20;

/// An object in a store. Cheap to clone.
#[derive(Clone)]
pub enum Entry {
    /// The plain bytes.
    Plain(RawObject),
    /// The bytes, compressed by the store's codec.
    Packed(Packed),
}

/// A compressed object in one allocation: the metadata from [`RawObject::strip`], followed by the
/// rest as a zstd frame.
#[derive(Clone)]
pub struct Packed(Arc<HeaderSlice<Parts, [u8]>>);

struct Parts {
    metadata: u32,
    /// Size of the rest before compression, in bytes.
    rest: u32,
}

impl Entry {
    /// The metadata; it is never compressed.
    pub fn metadata(&self) -> Metadata<'_> {
        match self {
            Self::Plain(raw) => raw.metadata(),
            Self::Packed(packed) => Metadata::of_stripped(packed.metadata()),
        }
    }

    /// The namespace and the name.
    pub(crate) fn key(&self) -> (Option<&str>, &str) {
        let metadata = self.metadata();
        (metadata.namespace(), metadata.name())
    }

    /// Bytes in memory, without the allocator's rounding.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Plain(raw) => raw.heap_bytes(),
            Self::Packed(packed) => COUNTS + size_of::<Parts>() + packed.0.slice.len(),
        }
    }

    /// Whether both share the same allocation.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Plain(one), Self::Plain(other)) => one.is(other),
            (Self::Packed(one), Self::Packed(other)) => Arc::ptr_eq(&one.0, &other.0),
            _ => false,
        }
    }

    pub(super) fn open(&self, codec: Option<&Codec>) -> sync::Arc<Object> {
        let raw = match (self, codec) {
            (Self::Plain(raw), _) => raw.clone(),
            (Self::Packed(packed), Some(codec)) => codec.unpack(packed),
            (Self::Packed(_), None) => unreachable!("a store has its codec before it packs"),
        };
        sync::Arc::new(Object::of(raw))
    }
}

impl Packed {
    fn metadata(&self) -> &str {
        // The metadata was valid UTF-8 when it was packed.
        std::str::from_utf8(&self.0.slice[..self.0.header.metadata as usize]).unwrap_or_default()
    }

    fn frame(&self) -> &[u8] {
        &self.0.slice[self.0.header.metadata as usize..]
    }
}

/// A decompressor, with buffers for an object.
struct Reader {
    decompressor: Decompressor<'static>,
    rest: Vec<u8>,
    text: String,
}

/// A codec for the objects of one kind, with a dictionary of their common parts.
pub struct Codec {
    dictionary: Vec<u8>,
    compressors: Mutex<Vec<Compressor<'static>>>,
    readers: Mutex<Vec<Reader>>,
}

impl Codec {
    /// Trains a dictionary on three quarters of a sample, and measures the compression ratio of the
    /// rest. Returns None if training fails.
    pub fn train(sample: &[RawObject]) -> Option<(Self, f64)> {
        let stripped: Vec<String> = sample
            .iter()
            .enumerate()
            .filter(|(at, _)| !at.is_multiple_of(4))
            .map(|(_, raw)| raw.strip().1)
            .collect();

        let dictionary = zstd::dict::from_samples(&stripped, DICTIONARY).ok()?;
        let codec = Self {
            dictionary,
            compressors: Mutex::default(),
            readers: Mutex::default(),
        };
        let mut plain = 0;
        let mut packed = 0;

        for raw in sample.iter().step_by(4) {
            let entry = Entry::Plain(raw.clone());
            plain += entry.heap_bytes();
            packed += codec.pack(&entry).unwrap_or(entry).heap_bytes();
        }

        Some((codec, packed as f64 / plain.max(1) as f64))
    }

    /// Bytes in memory, including the compressors.
    pub fn heap_bytes(&self) -> usize {
        let mut compressors = self.compressors.lock();
        let readers = self.readers.lock();
        let compressing: usize = compressors
            .iter_mut()
            .map(|one| one.context_mut().sizeof())
            .sum();
        let room = readers
            .iter()
            .map(|one| one.rest.capacity() + one.text.capacity())
            .sum::<usize>();

        self.dictionary.len()
            + compressing
            + room
            + readers.len() * (DECOMPRESSOR + self.dictionary.len())
    }

    /// The compressed object; None if it is already compressed, or if that gains too little.
    pub fn pack(&self, entry: &Entry) -> Option<Entry> {
        let Entry::Plain(raw) = entry else {
            return None;
        };

        let (metadata, rest) = raw.strip();
        let kept = self.compressors.lock().pop();
        let mut compressor = kept.or_else(|| self.compressor().ok())?;
        let frame = compressor.compress(rest.as_bytes());
        self.compressors.lock().push(compressor);
        let parts = Parts {
            metadata: u32::try_from(metadata.len()).ok()?,
            rest: u32::try_from(rest.len()).ok()?,
        };
        let bytes = [metadata.as_bytes(), &frame.ok()?].concat();
        let packed = Entry::Packed(Packed(Arc::from_header_and_slice(parts, &bytes)));

        (packed.heap_bytes() * 100 <= entry.heap_bytes() * WORTH).then_some(packed)
    }

    fn compressor(&self) -> std::io::Result<Compressor<'static>> {
        let mut compressor = Compressor::with_dictionary(LEVEL, &self.dictionary)?;
        // The entry contains everything a frame could tell.
        for known in [
            CParameter::ChecksumFlag(false),
            CParameter::DictIdFlag(false),
            CParameter::ContentSizeFlag(false),
        ] {
            compressor.set_parameter(known)?;
        }
        Ok(compressor)
    }

    fn unpack(&self, packed: &Packed) -> RawObject {
        let kept = self.readers.lock().pop();
        let mut reader = kept.unwrap_or_else(|| Reader {
            decompressor: Decompressor::with_dictionary(&self.dictionary)
                .unwrap_or_else(|error| broken(&error)),
            rest: vec![],
            text: String::new(),
        });

        let raw = reader.read(packed).unwrap_or_else(|error| broken(&error));
        let mut readers = self.readers.lock();
        if readers.len() < KEPT && reader.rest.capacity() + reader.text.capacity() <= ROOM {
            readers.push(reader);
        }

        raw
    }
}

impl Reader {
    fn read(&mut self, packed: &Packed) -> std::io::Result<RawObject> {
        self.rest.clear();
        self.rest.reserve(packed.0.header.rest as usize);
        self.decompressor
            .decompress_to_buffer(packed.frame(), &mut self.rest)?;
        let rest = simdutf8::basic::from_utf8(&self.rest).map_err(std::io::Error::other)?;
        let raw = RawObject::restore(packed.metadata(), rest, &mut self.text);
        raw.ok_or_else(|| std::io::Error::other("not what was packed"))
    }
}

/// Panics: only `pack` writes these bytes, so memory is corrupt or exhausted.
fn broken(error: &std::io::Error) -> ! {
    panic!("a packed object cannot be read: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use operetta_core::object::{ManagedFields, kind::GroupVersionKind};
    use rand::{Rng, SeedableRng, rngs::StdRng};

    #[test]
    fn packed_objects_read_back_byte_for_byte() {
        let kind = GroupVersionKind::new("v1", "Pod");
        let read = |at| {
            Object::from_json(&operetta_testkit::pods::pod(at), &kind, ManagedFields::Drop)
                .expect("a Pod")
        };
        let bodies: Vec<RawObject> = (0..400).map(|at| read(at * 3).raw().clone()).collect();
        let (codec, ratio) = Codec::train(&bodies).expect("trained");
        println!(
            "{ratio:.3} of the plain size; {} bytes of its own",
            codec.heap_bytes()
        );
        assert!(ratio < 0.5, "{ratio}");
        for at in 0..200 {
            let object = read(at);
            let packed = codec
                .pack(&Entry::Plain(object.raw().clone()))
                .expect("worth it");
            let metadata = packed.metadata();
            assert_eq!(
                packed.key(),
                (
                    object.key().namespace.as_deref(),
                    object.key().name.as_str()
                )
            );
            assert_eq!(
                (metadata.uid(), metadata.revision()),
                (object.uid(), object.revision())
            );
            assert!(metadata.labels().eq(object.labels()));
            assert_eq!(*packed.open(Some(&codec)), object);
        }
    }

    #[test]
    fn keeps_incompressible_objects_unpacked() {
        let kind = GroupVersionKind::new("v1", "Pod");
        let read = |text: &str| {
            Object::from_json(text, &kind, ManagedFields::Drop)
                .expect("an object")
                .raw()
                .clone()
        };
        assert!(Codec::train(&[read(r#"{"metadata":{"name":"a"}}"#)]).is_none());
        let bodies: Vec<_> = (0..200)
            .map(|at| read(&operetta_testkit::pods::pod(at)))
            .collect();
        let (codec, _) = Codec::train(&bodies).expect("trained");
        let mut chance = StdRng::seed_from_u64(1);
        let noise: String = (0..4_000)
            .map(|_| char::from(chance.random_range(b'#'..=b'~')))
            .collect();
        let noise = noise.replace('\\', "x");
        assert!(
            codec
                .pack(&Entry::Plain(read(&format!(
                    r#"{{"metadata":{{"name":"a"}},"data":"{noise}"}}"#
                ))))
                .is_none()
        );
    }
}

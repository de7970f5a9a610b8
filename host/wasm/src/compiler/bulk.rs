//! Splits bulk memory instructions into pieces.
//!
//! `memory.fill`, `memory.copy` and `memory.init` are single instructions that the epoch does not
//! interrupt. Over 128 MiB of untouched memory, one blocks its thread for tens of milliseconds, and
//! a guest may repeat it. So before a component is compiled, each is replaced by a call to a
//! function that does the same in pieces of 64 KiB, with an epoch check before each. All other code
//! stays byte for byte. An operation that traps still does so before it writes anything. Table
//! instructions stay as they are, because tables are small.

use std::collections::BTreeMap;

use wasm_encoder::{
    BlockType, CodeSection, ComponentSectionId, Encode, Function, InstructionSink, RawSection,
    Section, ValType,
};
use wasmparser::{
    BinaryReader, Encoding, FunctionBody, MemoryType, Parser, Payload, Result, TypeRef,
};

use super::pieces::{Bulk, backwards, bulk, exceeds_piece, forwards, instruction};

/// Compiles a component with its bulk memory instructions in pieces.
///
/// # Errors
/// Returns the compiler's error, which also explains best why a component cannot be parsed.
pub(super) fn compiled<T>(
    component: &[u8],
    compile: impl FnOnce(&[u8]) -> wasmtime::Result<T>,
) -> wasmtime::Result<T> {
    match in_pieces(component) {
        Ok(component) => compile(&component),
        Err(error) => compile(component).and(Err(error.into())),
    }
}

/// Returns an equivalent component with its bulk memory instructions in pieces. The component is
/// not validated.
///
/// # Errors
/// Returns the parser's error if the component is malformed.
fn in_pieces(component: &[u8]) -> Result<Vec<u8>> {
    let mut output = Vec::with_capacity(component.len());
    let mut outer = Vec::new();
    let mut in_module = false;

    for payload in Parser::new(0).parse_all(component) {
        let payload = payload?;
        match &payload {
            Payload::Version {
                encoding: Encoding::Module,
                ..
            } => in_module = true,
            Payload::End(_) if in_module => in_module = false,
            _ if in_module => {}
            Payload::Version { .. } => output.extend_from_slice(&wasm_encoder::Component::HEADER),
            Payload::ModuleSection {
                unchecked_range, ..
            } => {
                let module = component.get(unchecked_range.clone()).unwrap_or_default();
                let rewritten = Module::read(module)?.in_pieces(module)?;
                let data = rewritten.as_deref().unwrap_or(module);

                RawSection {
                    id: ComponentSectionId::CoreModule as u8,
                    data,
                }
                .append_to(&mut output);
            }
            Payload::ComponentSection { .. } => outer.push(std::mem::take(&mut output)),
            Payload::End(_) => {
                let Some(parent) = outer.pop() else { break };
                let inner = std::mem::replace(&mut output, parent);
                RawSection {
                    id: ComponentSectionId::Component as u8,
                    data: &inner,
                }
                .append_to(&mut output);
            }
            payload => {
                if let Some((id, range)) = payload.as_section() {
                    RawSection {
                        id,
                        data: &component[range],
                    }
                    .append_to(&mut output);
                }
            }
        }
    }
    Ok(output)
}

/// The parts of a module needed by the transformation.
#[derive(Default)]
struct Module<'a> {
    types: u32,
    /// Including imported functions.
    functions: u32,
    memories: Vec<MemoryType>,
    /// The length of each data segment in bytes.
    data: Vec<usize>,
    bodies: Vec<FunctionBody<'a>>,
    /// The bulk memory instructions, each with the index of its replacement. The replacements
    /// follow the module's own functions, in this order.
    bulk: BTreeMap<Bulk, u32>,
}

impl<'a> Module<'a> {
    fn read(module: &'a [u8]) -> Result<Self> {
        let mut found = Self::default();

        for payload in Parser::new(0).parse_all(module) {
            match payload? {
                Payload::TypeSection(section) => {
                    for group in section {
                        found.types += u32::try_from(group?.types().len()).unwrap_or(u32::MAX);
                    }
                }
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        match import?.ty {
                            TypeRef::Func(_) | TypeRef::FuncExact(_) => found.functions += 1,
                            TypeRef::Memory(memory) => found.memories.push(memory),
                            _ => {}
                        }
                    }
                }
                Payload::FunctionSection(section) => {
                    found.functions = found.functions.saturating_add(section.count());
                }
                Payload::MemorySection(section) => {
                    for memory in section {
                        found.memories.push(memory?);
                    }
                }
                Payload::DataSection(section) => {
                    for segment in section {
                        found.data.push(segment?.data.len());
                    }
                }
                Payload::CodeSectionEntry(body) => {
                    for operator in body.get_operators_reader()? {
                        if let Some(bulk) = bulk(&operator?) {
                            found.bulk.insert(bulk, 0);
                        }
                    }
                    found.bodies.push(body);
                }
                _ => {}
            }
        }

        for (function, index) in found.bulk.values_mut().zip(found.functions..) {
            *function = index;
        }
        Ok(found)
    }

    /// The module with its bulk memory instructions in pieces, or None if it has none.
    fn in_pieces(&self, module: &[u8]) -> Result<Option<Vec<u8>>> {
        if self.bulk.is_empty() {
            return Ok(None);
        }

        let mut output = wasm_encoder::Module::HEADER.to_vec();
        for payload in Parser::new(0).parse_all(module) {
            let payload = payload?;
            let Some((id, range)) = payload.as_section() else {
                continue;
            };
            let section = &module[range];

            let extended = match payload {
                Payload::TypeSection(_) => self.with_types(section)?,
                Payload::FunctionSection(_) => self.with_functions(section)?,
                Payload::CodeSectionStart { .. } => {
                    self.code()?.append_to(&mut output);
                    continue;
                }
                _ => {
                    RawSection { id, data: section }.append_to(&mut output);
                    continue;
                }
            };

            RawSection {
                id,
                data: &extended,
            }
            .append_to(&mut output);
        }
        Ok(Some(output))
    }

    fn with_types(&self, section: &[u8]) -> Result<Vec<u8>> {
        extend(section, self.bulk.len(), |output| {
            for bulk in self.bulk.keys() {
                // The type of a function, in the binary format.
                output.push(0x60);
                self.parameters(*bulk).as_slice().encode(output);
                0_u32.encode(output);
            }
        })
    }

    fn with_functions(&self, section: &[u8]) -> Result<Vec<u8>> {
        extend(section, self.bulk.len(), |output| {
            for (ty, _) in (self.types..).zip(&self.bulk) {
                ty.encode(output);
            }
        })
    }

    fn code(&self) -> Result<CodeSection> {
        let mut code = CodeSection::new();
        for body in &self.bodies {
            code.raw(&self.body(body)?);
        }
        for bulk in self.bulk.keys() {
            code.function(&self.function(*bulk));
        }
        Ok(code)
    }

    /// A function's body, with calls in place of its bulk memory instructions.
    fn body(&self, body: &FunctionBody<'_>) -> Result<Vec<u8>> {
        let bytes = body.as_bytes();
        let start = body.range().start;
        let mut output = Vec::with_capacity(bytes.len());
        let mut copied = 0;
        let mut operators = body.get_operators_reader()?;

        while !operators.eof() {
            let from = operators.original_position() - start;
            let operator = operators.read()?;
            if let Some(function) = bulk(&operator).and_then(|bulk| self.bulk.get(&bulk)) {
                output.extend_from_slice(&bytes[copied..from]);
                InstructionSink::new(&mut output).call(*function);
                copied = operators.original_position() - start;
            }
        }

        output.extend_from_slice(&bytes[copied..]);
        Ok(output)
    }

    fn is_64(&self, memory: u32) -> bool {
        self.memories
            .get(memory as usize)
            .is_some_and(|memory| memory.memory64)
    }

    /// The types of the operands.
    fn parameters(&self, bulk: Bulk) -> [ValType; 3] {
        let address = |is_64| if is_64 { ValType::I64 } else { ValType::I32 };
        match bulk {
            Bulk::Fill { memory } => [
                address(self.is_64(memory)),
                ValType::I32,
                address(self.is_64(memory)),
            ],
            Bulk::Copy { to, from } => {
                let [to, from] = [to, from].map(|memory| self.is_64(memory));
                [address(to), address(from), address(to && from)]
            }
            Bulk::Init { memory, .. } => [address(self.is_64(memory)), ValType::I32, ValType::I32],
        }
    }

    /// The replacement of an instruction. The operands are locals 0 to 2. Local 3 is the end of a
    /// range.
    fn function(&self, bulk: Bulk) -> Function {
        let types = self.parameters(bulk);
        let mut function = Function::new([(1, ValType::I64)]);
        let mut sink = function.instructions();
        let sink = &mut sink;

        // The instruction itself follows the block: for short operations, for the last piece, and
        // to trap.
        sink.block(BlockType::Empty);
        exceeds_piece(sink, types[2]);
        sink.i32_eqz().br_if(0);

        match bulk {
            Bulk::Fill { memory } => {
                self.leave_outside(sink, 0, memory, &types);
                forwards(sink, &types, bulk, &[0]);
            }
            Bulk::Init { memory, data } => {
                self.leave_outside(sink, 0, memory, &types);
                // A dropped segment is empty, so its first piece traps.
                let bytes = self
                    .data
                    .get(data as usize)
                    .and_then(|bytes| i64::try_from(*bytes).ok())
                    .unwrap_or_default();
                sink.local_get(1)
                    .i64_extend_i32_u()
                    .local_get(2)
                    .i64_extend_i32_u()
                    .i64_add();
                sink.i64_const(bytes).i64_gt_u().br_if(0);
                forwards(sink, &types, bulk, &[0, 1]);
            }
            Bulk::Copy { to, from } => {
                self.leave_outside(sink, 0, to, &types);
                self.leave_outside(sink, 1, from, &types);
                if to == from {
                    // The last piece comes first if the others would overwrite its source.
                    sink.local_get(0).local_get(1);
                    if self.is_64(to) {
                        sink.i64_gt_u()
                    } else {
                        sink.i32_gt_u()
                    };
                    sink.if_(BlockType::Empty);
                    backwards(sink, &types, bulk);
                    sink.else_();
                }
                forwards(sink, &types, bulk, &[0, 1]);
                if to == from {
                    sink.end();
                }
            }
        }
        sink.end();

        sink.local_get(0).local_get(1).local_get(2);
        instruction(sink, bulk);
        sink.end();
        function
    }

    /// Leaves the block if the range beginning at this local exceeds the memory.
    fn leave_outside(
        &self,
        sink: &mut InstructionSink<'_>,
        local: u32,
        memory: u32,
        types: &[ValType; 3],
    ) {
        let widened = |sink: &mut InstructionSink<'_>, local: u32| {
            sink.local_get(local);
            if types[local as usize] == ValType::I32 {
                sink.i64_extend_i32_u();
            }
        };

        let page = self
            .memories
            .get(memory as usize)
            .and_then(|memory| memory.page_size_log2)
            .unwrap_or(16);

        widened(sink, local);
        widened(sink, 2);
        sink.i64_add().local_tee(3).memory_size(memory);
        if !self.is_64(memory) {
            sink.i64_extend_i32_u();
        }
        sink.i64_const(page.into()).i64_shl().i64_gt_u();

        // Also leave if the end of the range overflows.
        sink.local_get(3);
        widened(sink, local);
        sink.i64_lt_u().i32_or().br_if(0);
    }
}

/// Appends `count` items, written by `write`, to a section.
fn extend(section: &[u8], count: usize, write: impl FnOnce(&mut Vec<u8>)) -> Result<Vec<u8>> {
    let mut reader = BinaryReader::new(section, 0);
    let before = reader.read_var_u32()?;
    let mut output = Vec::with_capacity(section.len() + 16 * count);
    before
        .saturating_add(u32::try_from(count).unwrap_or(u32::MAX))
        .encode(&mut output);
    output.extend_from_slice(&section[reader.original_position()..]);
    write(&mut output);
    Ok(output)
}

#[cfg(test)]
mod tests {
    use wasmtime::{Config, Engine, Instance, Store, UpdateDeadline};

    use super::{super::pieces::PIECE, *};

    /// Returns a module with two memories of ten pages, and functions that have each instruction on
    /// each. The second memory has 64 bits if `wide` is not empty.
    fn module(wide: &str) -> Vec<u8> {
        let (ty, second) = if wide.is_empty() {
            ("i32", "")
        } else {
            ("i64", "i64")
        };
        let text = format!(
            r#"(module
                (memory (export "a") 10) (memory (export "b") {second} 10)
                (data $d "{}")
                (func (export "fill") (param i32 i32 i32) (memory.fill (local.get 0) (local.get 1) (local.get 2)))
                (func (export "copy") (param i32 i32 i32) (memory.copy (local.get 0) (local.get 1) (local.get 2)))
                (func (export "init") (param i32 i32 i32) (memory.init $d (local.get 0) (local.get 1) (local.get 2)))
                (func (export "fill_b") (param {ty} i32 {ty}) (memory.fill 1 (local.get 0) (local.get 1) (local.get 2)))
                (func (export "copy_b") (param {ty} {ty} {ty}) (memory.copy 1 1 (local.get 0) (local.get 1) (local.get 2)))
                (func (export "copy_ab") (param {ty} i32 i32) (memory.copy 1 0 (local.get 0) (local.get 1) (local.get 2)))
                (func (export "init_b") (param {ty} i32 i32)
                  (memory.init 1 $d (local.get 0) (local.get 1) (local.get 2)))
                (func (export "nothing") (param i32) (result i32) (i32.add (local.get 0) (i32.const 70000))))"#,
            (0..200_000_u32)
                .map(|at| char::from(b'a' + (at * 7 / 5 % 26) as u8))
                .collect::<String>()
        );
        wat::parse_str(text).expect("text")
    }

    /// Pseudo-random numbers, the same in each run.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % bound
        }
    }

    struct Guest {
        store: Store<u32>,
        instance: Instance,
    }

    impl Guest {
        fn new(engine: &Engine, module: &[u8]) -> Self {
            let module = wasmtime::Module::new(engine, module).expect("valid");
            let mut store = Store::new(engine, 0);
            let instance = Instance::new(&mut store, &module, &[]).expect("no imports");
            Self { store, instance }
        }

        /// Calls an export. Reports whether it returned without a trap.
        fn call(&mut self, name: &str, operands: [u64; 3]) -> bool {
            let function = self
                .instance
                .get_func(&mut self.store, name)
                .expect("an export");
            let types: Vec<_> = function.ty(&self.store).params().collect();
            let values: Vec<_> = types
                .iter()
                .zip(operands)
                .map(|(ty, operand)| match ty {
                    wasmtime::ValType::I64 => wasmtime::Val::I64(operand.cast_signed()),
                    _ => wasmtime::Val::I32((operand as u32).cast_signed()),
                })
                .collect();
            function.call(&mut self.store, &values, &mut []).is_ok()
        }

        fn memory(&mut self, name: &str) -> Vec<u8> {
            self.instance
                .get_memory(&mut self.store, name)
                .expect("an export")
                .data(&self.store)
                .to_vec()
        }
    }

    #[test]
    fn pieces_behave_and_trap_like_instructions() {
        for wide in ["", "64"] {
            let original = module(wide);
            let in_pieces = Module::read(&original).and_then(|module| module.in_pieces(&original));
            let in_pieces = in_pieces
                .expect("it parses")
                .expect("it has bulk instructions");
            let engine = Engine::default();
            let mut guests = [
                Guest::new(&engine, &original),
                Guest::new(&engine, &in_pieces),
            ];
            let mut numbers = Numbers(1);
            let near = |numbers: &mut Numbers, most: u64| match numbers.below(6) {
                0 => numbers.below(100),
                1 => u64::from(PIECE as u32) * numbers.below(4) + numbers.below(3),
                2 => most.saturating_sub(numbers.below(3)),
                3 if !wide.is_empty() => u64::MAX - numbers.below(200_000),
                4 => u64::from(u32::MAX) - numbers.below(200_000),
                _ => numbers.below(most + 2),
            };
            let mut trapped = 0;
            for _ in 0..1_500 {
                let name = [
                    "fill", "copy", "init", "fill_b", "copy_b", "copy_ab", "init_b",
                ][numbers.below(7) as usize];
                let at = near(&mut numbers, 655_360);
                let from = if name.starts_with("copy") {
                    near(&mut numbers, 655_360)
                } else {
                    numbers.below(300)
                };
                // Overlapping ranges come up as well, where the order of the pieces matters.
                let around = [70_000, 40][numbers.below(2) as usize];
                let beside = at
                    .saturating_sub(around)
                    .saturating_add(numbers.below(2 * around));
                let from = if numbers.below(3) == 0 { beside } else { from };
                let count = if numbers.below(2) == 0 {
                    numbers.below(70)
                } else {
                    near(&mut numbers, 200_000)
                };
                let operands = [at, from, count];
                let [one, other] = guests.each_mut().map(|guest| guest.call(name, operands));
                assert_eq!(one, other, "{name} {operands:?}");
                trapped += u32::from(!one);
                // Comparing the memories after each call would take too long. A call that traps
                // writes nothing, so the next comparison finds any difference.
                if numbers.below(10) == 0 {
                    for memory in ["a", "b"] {
                        let [one, other] = guests.each_mut().map(|guest| guest.memory(memory));
                        assert!(one == other, "after {name} {operands:?}");
                    }
                }
            }
            assert!(
                (200..1_400).contains(&trapped),
                "{trapped} of 1,500 trapped"
            );
        }
    }

    #[test]
    fn checks_epoch_before_each_piece() {
        let mut config = Config::new();
        config.epoch_interruption(true);
        let engine = Engine::new(&config).expect("an engine");
        let original = module("");
        let in_pieces = Module::read(&original).and_then(|module| module.in_pieces(&original));
        let in_pieces = in_pieces
            .expect("it parses")
            .expect("it has bulk instructions");
        let checks = |module: &[u8]| {
            let mut guest = Guest::new(&engine, module);
            guest.store.set_epoch_deadline(0);
            guest.store.epoch_deadline_callback(|mut store| {
                *store.data_mut() += 1;
                Ok(UpdateDeadline::Continue(0))
            });
            assert!(guest.call("fill", [0, 1, 9 << 16]));
            *guest.store.data()
        };
        assert!(checks(&original) <= 2, "the instruction has an epoch check");
        assert!(checks(&in_pieces) >= 9, "a piece has no epoch check");
    }

    #[test]
    fn other_code_stays_byte_for_byte() {
        let module = |inner: &str| {
            format!("(core module (memory 1) (func (param i32) {inner}) (@custom \"x\" \"y\"))")
        };
        let nested = |inner: &str| {
            let module = module(inner);
            let text = format!(
                "(component (component {module} (type string)) {module} (core instance (instantiate 0)))"
            );
            wat::parse_str(text).expect("text")
        };
        let plain = nested("nop");
        assert_eq!(in_pieces(&plain).expect("it parses"), plain);
        let changed = in_pieces(&nested(
            "(memory.fill (local.get 0) (local.get 0) (local.get 0))",
        ))
        .expect("it parses");
        wasmtime::component::Component::from_binary(&Engine::default(), &changed)
            .expect("it is valid");
        let custom = changed
            .windows(4)
            .filter(|bytes| *bytes == b"\x03\x01xy")
            .count();
        assert_eq!(custom, 2, "a custom section is lost");
        assert!(in_pieces(&plain[..plain.len() - 1]).is_err());
        let nonsense = compiled(b"nonsense", |bytes| {
            wasmtime::component::Component::from_binary(&Engine::default(), bytes)
        });
        assert!(nonsense.is_err());
    }
}

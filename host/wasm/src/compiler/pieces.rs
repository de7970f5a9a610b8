//! Emits the code that fills, copies and initialises memory in pieces.

use wasm_encoder::{BlockType, InstructionSink, ValType};
use wasmparser::Operator;

/// How many bytes one instruction moves. A piece touches 16 pages, about 30 µs if the kernel has to
/// provide them.
pub(super) const PIECE: i32 = 64 << 10;

/// A bulk memory instruction with its immediates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Bulk {
    Fill { memory: u32 },
    Copy { to: u32, from: u32 },
    Init { memory: u32, data: u32 },
}

pub(super) fn bulk(operator: &Operator<'_>) -> Option<Bulk> {
    match *operator {
        Operator::MemoryFill { mem } => Some(Bulk::Fill { memory: mem }),
        Operator::MemoryCopy { dst_mem, src_mem } => Some(Bulk::Copy {
            to: dst_mem,
            from: src_mem,
        }),
        Operator::MemoryInit { data_index, mem } => Some(Bulk::Init {
            memory: mem,
            data: data_index,
        }),
        _ => None,
    }
}

pub(super) fn instruction(sink: &mut InstructionSink<'_>, bulk: Bulk) {
    match bulk {
        Bulk::Fill { memory } => sink.memory_fill(memory),
        Bulk::Copy { to, from } => sink.memory_copy(to, from),
        Bulk::Init { memory, data } => sink.memory_init(memory, data),
    };
}

/// Tests whether more than a piece is left. Local 2 has the number of bytes left.
pub(super) fn exceeds_piece(sink: &mut InstructionSink<'_>, ty: ValType) {
    sink.local_get(2);
    piece(sink, ty);
    if ty == ValType::I64 {
        sink.i64_gt_u()
    } else {
        sink.i32_gt_u()
    };
}

pub(super) fn piece(sink: &mut InstructionSink<'_>, ty: ValType) {
    if ty == ValType::I64 {
        sink.i64_const(PIECE.into())
    } else {
        sink.i32_const(PIECE)
    };
}

/// Loops over the pieces, first to last, while more than one is left. The loop advances the locals
/// in `moving`.
pub(super) fn forwards(
    sink: &mut InstructionSink<'_>,
    types: &[ValType; 3],
    bulk: Bulk,
    moving: &[u32],
) {
    sink.loop_(BlockType::Empty).local_get(0).local_get(1);
    piece(sink, types[2]);
    instruction(sink, bulk);

    for local in moving {
        let ty = types[*local as usize];
        sink.local_get(*local);
        piece(sink, ty);
        if ty == ValType::I64 {
            sink.i64_add()
        } else {
            sink.i32_add()
        };
        sink.local_set(*local);
    }

    shorten(sink, types[2]);
    exceeds_piece(sink, types[2]);
    sink.br_if(0).end();
}

/// Loops over the pieces, last to first, while more than one is left. Source and destination are in
/// the same memory.
pub(super) fn backwards(sink: &mut InstructionSink<'_>, types: &[ValType; 3], bulk: Bulk) {
    sink.loop_(BlockType::Empty);
    shorten(sink, types[2]);

    for local in [0, 1] {
        sink.local_get(local).local_get(2);
        if types[2] == ValType::I64 {
            sink.i64_add()
        } else {
            sink.i32_add()
        };
    }

    piece(sink, types[2]);
    instruction(sink, bulk);
    exceeds_piece(sink, types[2]);
    sink.br_if(0).end();
}

/// Subtracts a piece from the bytes left.
pub(super) fn shorten(sink: &mut InstructionSink<'_>, ty: ValType) {
    sink.local_get(2);
    piece(sink, ty);
    if ty == ValType::I64 {
        sink.i64_sub()
    } else {
        sink.i32_sub()
    };
    sink.local_set(2);
}

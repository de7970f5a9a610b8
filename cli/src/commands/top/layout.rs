//! The widths of a table's columns on a terminal. No I/O.

use super::table::Column;

/// The blanks between two columns.
pub const GAP: usize = 1;

/// The width of each column; None for one that is left out. `full` are the widths that the columns
/// would take, titles included, and `room` is the width of the terminal. The column `kept`, by
/// which the rows are sorted, is never left out.
///
/// Extra columns are left out unless their minimal widths fit beside the full widths of the others.
/// Then columns are left out by rank until the minimal widths fit. The others share the room: extra
/// columns are narrowed first, then the widest.
pub fn widths(
    columns: &[Column],
    full: &[usize],
    room: usize,
    kept: Option<usize>,
) -> Vec<Option<usize>> {
    let mut widths: Vec<Option<usize>> = full.iter().copied().map(Some).collect();
    let least = |at: usize| columns[at].min.min(full[at]);

    let needed = |widths: &[Option<usize>], width: &dyn Fn(usize) -> usize| {
        let shown: Vec<usize> = (0..widths.len())
            .filter(|at| widths[*at].is_some())
            .map(width)
            .collect();
        shown.iter().sum::<usize>() + GAP * shown.len().saturating_sub(1)
    };

    let is_droppable =
        |widths: &[Option<usize>], at: usize| widths[at].is_some() && Some(at) != kept;

    let wanted = |at: usize| {
        if columns[at].is_extra {
            least(at)
        } else {
            full[at]
        }
    };

    while needed(&widths, &wanted) > room {
        let extra = |at: &usize| columns[*at].is_extra && is_droppable(&widths, *at);
        let Some(at) = (0..columns.len()).rev().find(extra) else {
            break;
        };
        widths[at] = None;
    }

    while needed(&widths, &least) > room {
        let droppable =
            (0..columns.len()).filter(|at| columns[*at].rank > 0 && is_droppable(&widths, *at));
        let Some(at) = droppable.max_by_key(|at| columns[*at].rank) else {
            break;
        };
        widths[at] = None;
    }

    let mut over = needed(&widths, &|at| full[at]).saturating_sub(room);
    while over > 0 {
        let wide =
            (0..columns.len()).filter(|at| widths[*at].is_some_and(|width| width > least(*at)));
        let Some(at) = wide.max_by_key(|at| (columns[*at].is_extra, widths[*at])) else {
            break;
        };
        widths[at] = widths[at].map(|width| width - 1);
        over -= 1;
    }

    widths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(min: usize, rank: u8, is_extra: bool) -> Column {
        Column {
            min,
            rank,
            is_extra,
            ..Column::default()
        }
    }

    #[test]
    fn columns_are_left_out_by_rank_and_narrowed() {
        let columns = [
            column(4, 0, false),
            column(3, 1, false),
            column(3, 2, false),
            column(5, 9, true),
        ];

        let full = [10, 3, 3, 5];
        for (room, expected) in [
            (24, [Some(10), Some(3), Some(3), Some(5)]),
            (23, [Some(10), Some(3), Some(3), None]),
            (18, [Some(10), Some(3), Some(3), None]),
            (15, [Some(7), Some(3), Some(3), None]),
            (12, [Some(4), Some(3), Some(3), None]),
            (11, [Some(7), Some(3), None, None]),
            (5, [Some(5), None, None, None]),
            (1, [Some(4), None, None, None]),
        ] {
            assert_eq!(widths(&columns, &full, room, None), expected, "{room}");
        }

        assert_eq!(
            widths(&columns, &full, 11, Some(2)),
            [Some(7), None, Some(3), None],
            "the sorted column stays"
        );

        assert_eq!(
            widths(&columns, &full, 13, Some(3)),
            [Some(7), None, None, Some(5)],
            "also an extra one"
        );
    }

    #[test]
    fn extra_column_is_narrowed_before_others() {
        let columns = [column(4, 0, false), column(5, 0, true)];
        for (room, expected) in [
            (60, [Some(10), Some(40)]),
            (20, [Some(10), Some(9)]),
            (16, [Some(10), Some(5)]),
            (15, [Some(10), None]),
        ] {
            assert_eq!(widths(&columns, &[10, 40], room, None), expected, "{room}");
        }
    }
}

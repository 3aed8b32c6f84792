//! Answers that are written in portions.
//!
//! An answer about a large mesh has megabytes. It is written row by row, as fast as its reader takes it. All readers
//! share one view of the router, so that a request costs no more memory than one portion.

use std::collections::VecDeque;

use super::state::State;

/// Rows visited for one portion, including those that are not shown.
const ROWS_MAX: usize = 1024;

/// Writes the row with a number; `None` if the row is not shown.
pub type Render = Box<dyn Fn(&State, usize) -> Option<String>>;

/// A part of an answer.
pub enum Piece {
    /// Fixed text.
    Text(String),
    /// This many rows. The separator is written between two rows that follow each other, in this piece or across
    /// pieces.
    Rows(usize, &'static str, Render),
}

/// An answer, as far as it is not written yet.
#[derive(Default)]
pub struct Answer {
    pieces: VecDeque<Piece>,
    /// Number of the next row of the first piece.
    next: usize,
    /// Whether the last output was a row.
    after_row: bool,
}

impl Answer {
    /// Writes these pieces one after the other.
    pub fn new(pieces: impl IntoIterator<Item = Piece>) -> Self {
        Self {
            pieces: pieces.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Writes a fixed text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new([Piece::Text(text.into())])
    }

    /// Returns whether everything is written.
    pub fn is_finished(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the next `octets` bytes and the rest of the row in which they end.
    pub fn portion(&mut self, state: &State, octets: usize) -> String {
        let mut out = String::new();
        let mut rows = 0;
        while out.len() < octets && rows < ROWS_MAX {
            match self.pieces.front() {
                None => break,
                Some(Piece::Text(text)) => {
                    out.push_str(text);
                    self.after_row = false;
                    self.pieces.pop_front();
                }
                Some(Piece::Rows(count, ..)) if self.next >= *count => {
                    self.next = 0;
                    self.pieces.pop_front();
                }
                Some(Piece::Rows(_, separator, render)) => {
                    if let Some(row) = render(state, self.next) {
                        out.push_str(if self.after_row { separator } else { "" });
                        out.push_str(&row);
                        self.after_row = true;
                    }
                    self.next += 1;
                    rows += 1;
                }
            }
        }
        out
    }
}

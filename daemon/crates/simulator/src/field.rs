//! Radios on a square field.

/// Positions in a square of side 1 and a common range: a random geometric graph.
#[derive(Clone, Debug)]
pub struct Field {
    positions: Vec<(f64, f64)>,
    range: f64,
}

impl Field {
    /// Returns `nodes` random positions. The range gives a node far from the edges `degree` neighbours on average.
    pub fn random(nodes: usize, degree: f64, rng: &mut fastrand::Rng) -> Self {
        Self {
            positions: (0..nodes).map(|_| (rng.f64(), rng.f64())).collect(),
            range: (degree / (nodes as f64 * std::f64::consts::PI)).sqrt(),
        }
    }

    /// Moves every node by at most `step` in each direction, inside the field.
    pub fn drift(&mut self, step: f64, rng: &mut fastrand::Rng) {
        for (x, y) in &mut self.positions {
            *x = (*x + (rng.f64() - 0.5) * 2.0 * step).clamp(0.0, 1.0);
            *y = (*y + (rng.f64() - 0.5) * 2.0 * step).clamp(0.0, 1.0);
        }
    }

    /// Returns all pairs in range, each once, the lower number first.
    pub fn pairs(&self) -> Vec<(usize, usize)> {
        let nodes = self.positions.len();
        let pairs = (0..nodes).flat_map(|a| (a + 1..nodes).map(move |b| (a, b)));
        pairs.filter(|(a, b)| self.in_range(*a, *b)).collect()
    }

    /// Returns all pairs in range that are on the same side of the middle of the field.
    pub fn pairs_of_halves(&self) -> Vec<(usize, usize)> {
        let west = |node: usize| self.positions[node].0 < 0.5;
        self.pairs()
            .into_iter()
            .filter(|(a, b)| west(*a) == west(*b))
            .collect()
    }

    fn in_range(&self, a: usize, b: usize) -> bool {
        let ((ax, ay), (bx, by)) = (self.positions[a], self.positions[b]);
        (ax - bx).powi(2) + (ay - by).powi(2) <= self.range.powi(2)
    }
}

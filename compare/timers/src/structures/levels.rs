//! The cost of one more level: the same work on hierarchies of 1 to 5 levels. All of them reach
//! 65,536 ticks, so no timer has to wait for another cycle.

use harness::Fallible;
use harness::case::Figures;

use tickwheel::Geometry;

use super::peers::use_geometry;
use super::workloads::{self, Plan};

pub(super) const WORK: &str = "levels";

/// The name of a row of the table, and its geometry.
pub(super) const GEOMETRIES: [(&str, &[usize]); 5] = [
    ("1 level", &[65_536]),
    ("2 levels", &[256, 256]),
    ("3 levels", &[64, 32, 32]),
    ("4 levels", &[16, 16, 16, 16]),
    ("5 levels", &[16, 8, 8, 8, 8]),
];

/// Nanoseconds of the works that touch slots, for the geometry of that name.
pub(super) fn measure(name: &str, plan: Plan) -> Fallible<Figures> {
    let known = GEOMETRIES.iter().find(|(known, _)| *known == name);
    let (_, sizes) = known.ok_or_else(|| format!("no geometry is called `{name}`"))?;
    use_geometry(Geometry::levels(sizes).map_err(|error| error.to_string())?);
    let mut figures = Vec::new();
    for work in ["insert", "pairs", "refire", "drain"] {
        figures.extend(workloads::measure::<super::peers::TickWheel>(work, plan)?);
    }
    Ok(figures)
}

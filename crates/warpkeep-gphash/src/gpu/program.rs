//! The kernels' source.

use warpkeep_core::{KeyCells, KeySpec, MergeRule, Seed, ValueSpec};
use warpkeep_device::Program;
use warpkeep_image::Persist;
use warpkeep_record::RecordForm;

#[cfg(no_simulator)]
use warpkeep_device::KernelEntry;

use super::params::{
    AgeParams, AskHostParams, CensusParams, ChooseParams, CollectParams, CopyParams, DrainParams, FillParams,
    GetParams, LayoutParams, LoadParams, LookupParams, MeasureParams, PackParams, PlanParams, PointParams,
    PublishParams, RaceParams, ReflectParams, RefreshParams, RehashParams, ReleaseParams, RepairParams,
    SpareParams, SpreadParams, StageParams, TellParams, WarmParams, WeighParams, body_code,
};
use super::regions::Regions;
use super::straight::params::{
    BeatParams, FollowParams, RecopyParams, SortParams, SpellParams, StraightParams, VerifyParams,
};
use crate::bucket::{Body, Shape};
use crate::header::Header;
use crate::{Geometry, Layout, Table, TableSpec};

const SOURCES: &[(&str, &str)] = &[
    ("gphash.cu", include_str!("../../kernels/gphash.cu")),
    ("hash.h", include_str!("../../kernels/hash.h")),
    ("steps.h", include_str!("../../kernels/steps.h")),
    ("table.h", include_str!("../../kernels/table.h")),
    ("cells.h", include_str!("../../kernels/cells.h")),
    ("checksum.h", include_str!("../../kernels/checksum.h")),
    ("cache.h", include_str!("../../kernels/cache.h")),
    ("find.h", include_str!("../../kernels/find.h")),
    ("claim.h", include_str!("../../kernels/claim.h")),
    ("twins.h", include_str!("../../kernels/twins.h")),
    ("get.h", include_str!("../../kernels/get.h")),
    ("plan.h", include_str!("../../kernels/plan.h")),
    ("alone.h", include_str!("../../kernels/alone.h")),
    ("stage.h", include_str!("../../kernels/stage.h")),
    ("drain.h", include_str!("../../kernels/drain.h")),
    ("keys.h", include_str!("../../kernels/keys.h")),
    ("lines.h", include_str!("../../kernels/lines.h")),
    ("numbers.h", include_str!("../../kernels/numbers.h")),
    ("mirror.h", include_str!("../../kernels/mirror.h")),
    ("lookup.h", include_str!("../../kernels/lookup.h")),
    ("homes.h", include_str!("../../kernels/homes.h")),
    ("regions.h", include_str!("../../kernels/regions.h")),
    ("values.h", include_str!("../../kernels/values.h")),
    ("value_load.h", include_str!("../../kernels/value_load.h")),
    ("few.h", include_str!("../../kernels/few.h")),
    ("hosts.h", include_str!("../../kernels/hosts.h")),
    ("deal.h", include_str!("../../kernels/deal.h")),
    ("point.h", include_str!("../../kernels/point.h")),
    ("reflect.h", include_str!("../../kernels/reflect.h")),
    ("straight.h", include_str!("../../kernels/straight.h")),
    ("parts.h", include_str!("../../kernels/parts.h")),
    ("decide.h", include_str!("../../kernels/decide.h")),
    ("entries.h", include_str!("../../kernels/entries.h")),
    ("verify.h", include_str!("../../kernels/verify.h")),
    ("supply.h", include_str!("../../kernels/supply.h")),
    ("load.h", include_str!("../../kernels/load.h")),
    ("rows.h", include_str!("../../kernels/rows.h")),
    ("variable.h", include_str!("../../kernels/variable.h")),
    ("layout.h", include_str!("../../kernels/layout.h")),
];

#[cfg(not(no_simulator))]
warpkeep_device::kernels! {
    static KERNELS = [
        gphash_get: GetParams,
        gphash_plan: PlanParams,
        gphash_get_alone: GetParams,
        gphash_stage: StageParams,
        gphash_publish: PublishParams,
        gphash_abandon: PublishParams,
        gphash_drain: DrainParams,
        gphash_repair: RepairParams,
        gphash_cache_load: LoadParams,
        gphash_cache_refresh: RefreshParams,
        gphash_cache_age: AgeParams,
        gphash_cache_race: RaceParams,
        gphash_lookup: LookupParams,
        gphash_locate: LookupParams,
        gphash_line_up: Regions,
        gphash_order: LookupParams,
        gphash_fetch: LookupParams,
        gphash_ask: LookupParams,
        gphash_collect: CollectParams,
        gphash_few: LookupParams,
        gphash_deal: LookupParams,
        gphash_point: PointParams,
        gphash_ask_host: AskHostParams,
        gphash_reflect: ReflectParams,
        gphash_census: CensusParams,
        gphash_rehash: RehashParams,
        gphash_tell: TellParams,
        gphash_recopy: RecopyParams,
        gphash_enrol: StraightParams,
        gphash_digest: StraightParams,
        gphash_decide: StraightParams,
        gphash_finish: StraightParams,
        gphash_arrange: StraightParams,
        gphash_beat: BeatParams,
        gphash_send: BeatParams,
        gphash_veil: StraightParams,
        gphash_settle: BeatParams,
        gphash_suspect: VerifyParams,
        gphash_queue: VerifyParams,
        gphash_verify: VerifyParams,
        gphash_spell: SpellParams,
        gphash_sort_count: SortParams,
        gphash_sort: SortParams,
        gphash_spread: SpreadParams,
        gphash_pack: PackParams,
        gphash_measure: MeasureParams,
        gphash_copy: CopyParams,
        gphash_values_warm: WarmParams,
        gphash_values_weigh: WeighParams,
        gphash_values_release: ReleaseParams,
        gphash_values_hold: SpareParams,
        gphash_values_spare: SpareParams,
        gphash_values_choose: ChooseParams,
        gphash_values_order: FillParams,
        gphash_values_fill: FillParams,
        gphash_values_follow: FollowParams,
        gphash_layout: LayoutParams,
    ];
}

#[cfg(no_simulator)]
static KERNELS: &[KernelEntry] = {
    const fn cuda_only(name: &'static str, params_bytes: usize) -> KernelEntry {
        KernelEntry { name, params_bytes, simulated: None }
    }
    &[
        cuda_only("gphash_get", size_of::<GetParams>()),
        cuda_only("gphash_plan", size_of::<PlanParams>()),
        cuda_only("gphash_get_alone", size_of::<GetParams>()),
        cuda_only("gphash_stage", size_of::<StageParams>()),
        cuda_only("gphash_publish", size_of::<PublishParams>()),
        cuda_only("gphash_abandon", size_of::<PublishParams>()),
        cuda_only("gphash_drain", size_of::<DrainParams>()),
        cuda_only("gphash_repair", size_of::<RepairParams>()),
        cuda_only("gphash_cache_load", size_of::<LoadParams>()),
        cuda_only("gphash_cache_refresh", size_of::<RefreshParams>()),
        cuda_only("gphash_cache_age", size_of::<AgeParams>()),
        cuda_only("gphash_cache_race", size_of::<RaceParams>()),
        cuda_only("gphash_lookup", size_of::<LookupParams>()),
        cuda_only("gphash_locate", size_of::<LookupParams>()),
        cuda_only("gphash_line_up", size_of::<Regions>()),
        cuda_only("gphash_order", size_of::<LookupParams>()),
        cuda_only("gphash_fetch", size_of::<LookupParams>()),
        cuda_only("gphash_ask", size_of::<LookupParams>()),
        cuda_only("gphash_collect", size_of::<CollectParams>()),
        cuda_only("gphash_few", size_of::<LookupParams>()),
        cuda_only("gphash_deal", size_of::<LookupParams>()),
        cuda_only("gphash_point", size_of::<PointParams>()),
        cuda_only("gphash_ask_host", size_of::<AskHostParams>()),
        cuda_only("gphash_reflect", size_of::<ReflectParams>()),
        cuda_only("gphash_census", size_of::<CensusParams>()),
        cuda_only("gphash_rehash", size_of::<RehashParams>()),
        cuda_only("gphash_tell", size_of::<TellParams>()),
        cuda_only("gphash_recopy", size_of::<RecopyParams>()),
        cuda_only("gphash_enrol", size_of::<StraightParams>()),
        cuda_only("gphash_digest", size_of::<StraightParams>()),
        cuda_only("gphash_decide", size_of::<StraightParams>()),
        cuda_only("gphash_finish", size_of::<StraightParams>()),
        cuda_only("gphash_arrange", size_of::<StraightParams>()),
        cuda_only("gphash_beat", size_of::<BeatParams>()),
        cuda_only("gphash_send", size_of::<BeatParams>()),
        cuda_only("gphash_veil", size_of::<StraightParams>()),
        cuda_only("gphash_settle", size_of::<BeatParams>()),
        cuda_only("gphash_suspect", size_of::<VerifyParams>()),
        cuda_only("gphash_queue", size_of::<VerifyParams>()),
        cuda_only("gphash_verify", size_of::<VerifyParams>()),
        cuda_only("gphash_spell", size_of::<SpellParams>()),
        cuda_only("gphash_sort_count", size_of::<SortParams>()),
        cuda_only("gphash_sort", size_of::<SortParams>()),
        cuda_only("gphash_spread", size_of::<SpreadParams>()),
        cuda_only("gphash_pack", size_of::<PackParams>()),
        cuda_only("gphash_measure", size_of::<MeasureParams>()),
        cuda_only("gphash_copy", size_of::<CopyParams>()),
        cuda_only("gphash_values_warm", size_of::<WarmParams>()),
        cuda_only("gphash_values_weigh", size_of::<WeighParams>()),
        cuda_only("gphash_values_release", size_of::<ReleaseParams>()),
        cuda_only("gphash_values_hold", size_of::<SpareParams>()),
        cuda_only("gphash_values_spare", size_of::<SpareParams>()),
        cuda_only("gphash_values_choose", size_of::<ChooseParams>()),
        cuda_only("gphash_values_order", size_of::<FillParams>()),
        cuda_only("gphash_values_fill", size_of::<FillParams>()),
        cuda_only("gphash_values_follow", size_of::<FollowParams>()),
        cuda_only("gphash_layout", size_of::<LayoutParams>()),
    ]
};

/// The kernels for new tables of one kind, whose lengths and geometry are constants where the device's compiler can use them; `None` if
/// no device can work such tables: keys or values have any length, and lie in place.
pub fn program_for(geometry: Geometry, layout: Layout, key: KeySpec, value: ValueSpec) -> Option<Program> {
    let spec = TableSpec { key, value, geometry, capacity: 0, layout, merge: MergeRule::None, seed: Seed(0) };
    let header = Header::of(&spec);
    program(geometry, layout, (key, header.cells), value, header.form())
}

/// The kernels for a table.
pub(crate) fn program_of<P: Persist>(table: &Table<P>) -> Option<Program> {
    program(table.geometry, table.layout, (table.key, table.key_cells()), table.value, table.form)
}

/// Bytes of a record's tail in its tile; 0 if it lies in none.
pub(crate) fn tail_len(form: RecordForm) -> u64 {
    form.tile().map_or(0, warpkeep_image::Tile::tail)
}

fn program(
    geometry: Geometry,
    layout: Layout,
    (key, cells): (KeySpec, Option<KeyCells>),
    value: ValueSpec,
    form: RecordForm,
) -> Option<Program> {
    let key_len = cells.map(KeyCells::row_len).or_else(|| key.fixed_len());
    let variable = key_len.is_none() || value.fixed_len().is_none();
    let body = Shape::new(geometry, layout, key, value).body;
    if variable && body != Body::Packed {
        return None;
    }
    let constants = [
        ("GPHASH_HASHES", geometry.hashes() as u64),
        ("GPHASH_SLOTS", geometry.slots() as u64),
        ("GPHASH_BODY", u64::from(body_code(body))),
        ("GPHASH_KEY_LEN", key_len.unwrap_or_default() as u64),
        ("GPHASH_VALUE_LEN", value.fixed_len().unwrap_or_default() as u64),
        ("GPHASH_VARIABLE", u64::from(variable)),
        ("GPHASH_TAIL_LEN", tail_len(form)),
        ("GPHASH_LONGEST", cells.map_or(0, |cells| cells.max_len() as u64)),
        ("GPHASH_CHECKSUMS", u64::from(form.has_checksums())),
    ];
    Some(Program {
        name: "gphash",
        sources: SOURCES,
        defines: constants.map(|(name, value)| (name.to_owned(), format!("{value}u"))).to_vec(),
        kernels: KERNELS,
    })
}

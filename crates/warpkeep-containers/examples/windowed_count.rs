//! Counts of a stream over a sliding window, by kernels that change an ordered map, beside reads of one consistent state.
//!
//! `cargo run -p warpkeep-containers --example windowed_count` uses the first GPU, or the simulator where there is none. The key of a count is the second
//! above and the sensor below, so that a window is one range, and what is too old is one range as well. The kernel is `ordered_map_calls_count_events`
//! in `kernels/ordered_map_calls.cu`.

use std::collections::BTreeMap;
use std::error::Error;

use bytemuck::NoUninit;
use warpkeep_containers::{OrderedMap, OrderedMapOptions, OrderedSnapshot, OrderedStatus, OrderedWriterRef};
use warpkeep_device::{Device, DeviceChoice, DevicePtr, Grid, KernelSet as _};

/// Seconds of a window.
const WINDOW: u64 = 5;
const SENSORS: u64 = 200;

/// What the kernel takes: the struct `Events` of its source.
#[derive(Clone, Copy, NoUninit)]
#[repr(C)]
struct Events {
    map: OrderedWriterRef,
    events: DevicePtr,
    statuses: DevicePtr,
    count: u64,
}

warpkeep_device::kernel_set! {
    struct Kernels in "ordered_map_calls.cu", prefix "ordered_map_calls_" {
        count_events: Events,
    }
}

/// The counts of a second come together.
fn key(second: u64, sensor: u64) -> u64 {
    second << 32 | sensor
}

/// Events of the window that ends with a second.
fn in_window(state: &OrderedSnapshot<u64, u64>, second: u64) -> Result<u64, Box<dyn Error>> {
    let low = key(second.saturating_sub(WINDOW - 1), 0);
    Ok(state.range(&[low], &[key(second, u32::MAX.into())], None)?.values.iter().sum())
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::open(DeviceChoice::Cuda(0)).or_else(|_| Device::open(DeviceChoice::Sim))?;
    let (kernels, stream) = (Kernels::load(&device)?, device.stream()?);
    let counts = OrderedMap::<u64, u64>::new(&device, &OrderedMapOptions::default())?;
    let mut right: BTreeMap<u64, u64> = BTreeMap::new();
    for second in 0..20 {
        // Some sensors send far more often than others, and some events are late.
        let events: Vec<u64> =
            (0..2000).map(|i: u64| key(second - (i % 7 / 6).min(second), i * i % SENSORS)).collect();
        for event in &events {
            *right.entry(*event).or_default() += 1;
        }
        // A state that does not change, for reads beside the kernel.
        let before = counts.snapshot();
        let (on_device, statuses) = (device.upload(&events)?, device.allocate(events.len())?);
        let writer = counts.writer(events.len() as u64)?;
        let params = Events {
            map: writer.reference(),
            events: on_device.ptr(),
            statuses: statuses.ptr(),
            count: events.len() as u64,
        };
        // SAFETY: the columns have an element for each event, and the writer is there until the stream is synchronised.
        unsafe { kernels.count_events.launch(Grid::covering(params.count, 128), &params, &stream)? };
        let earlier = in_window(&before, second)?;
        stream.synchronize()?;
        writer.finish()?;
        let statuses = statuses.to_vec::<u8>()?;
        assert!(
            statuses.iter().all(|status| *status != OrderedStatus::Full as u8),
            "there was memory for all"
        );

        let now = in_window(&counts.snapshot(), second)?;
        let window = key(second.saturating_sub(WINDOW - 1), 0)..=key(second, u32::MAX.into());
        assert_eq!(now, right.range(window).map(|(_, count)| count).sum::<u64>());
        assert_eq!(in_window(&before, second)?, earlier, "a snapshot stays");
        // What no window has any more goes.
        let old: Vec<u64> =
            right.range(..key(second.saturating_sub(WINDOW), 0)).map(|(key, _)| *key).collect();
        counts.erase(&old)?;
        right.retain(|key, _| !old.contains(key));
        println!(
            "second {second}: {earlier} events in the window before, {now} now, {} counts",
            counts.len()
        );
    }
    Ok(())
}

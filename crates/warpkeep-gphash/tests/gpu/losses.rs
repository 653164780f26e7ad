//! Recovery from every loss of a device.

use crate::lost::{During, losses};

#[test]
fn a_device_lost_while_it_stages() {
    losses(During::Stage);
}

#[test]
fn a_device_lost_while_it_publishes() {
    losses(During::Publish);
}

#[test]
fn a_device_lost_while_it_moves_items() {
    losses(During::Drain);
}

//! The graph as the suites of containers see it.

use warpkeep_containers::{ContainerError, EdgeOp, EdgeStatus, Graph};
use warpkeep_device::{Device, DeviceError, Program};
use warpkeep_suites::device::{Container, Dice};

use crate::model::{Model, Shape, check_answers, check_contents, random_op};

pub(crate) fn device_error(error: ContainerError) -> DeviceError {
    match error {
        ContainerError::Device(error) => error,
        other => panic!("{other}"),
    }
}

/// Defines a graph with options of one kind, and its model.
macro_rules! graph_container {
    ($name:ident, $model:ident, $title:literal, $shape:expr, $made:expr) => {
        pub(crate) struct $name(Graph);

        pub(crate) struct $model(Model);

        impl Default for $model {
            fn default() -> Self {
                Self(Model::new($shape))
            }
        }

        impl Container for $name {
            type Operation = EdgeOp;
            type Answer = EdgeStatus;
            type Model = $model;

            const NAME: &'static str = $title;

            fn programs() -> Vec<Program> {
                vec![Graph::program()]
            }

            fn create(device: &Device, _operations: usize) -> Result<Self, DeviceError> {
                Graph::new(device, &$shape.options()).map($made).map(Self).map_err(device_error)
            }

            fn operation(dice: &mut Dice) -> EdgeOp {
                random_op(dice, 60)
            }

            fn run(&mut self, batch: &[EdgeOp]) -> Result<Vec<EdgeStatus>, DeviceError> {
                self.0.apply(batch).map_err(device_error)
            }

            fn check(model: &mut $model, batch: &[EdgeOp], answers: &[EdgeStatus]) -> Result<(), String> {
                check_answers(&mut model.0, batch, answers)
            }

            fn compare(&self, model: &$model) -> Result<(), String> {
                check_contents(&self.0, &model.0).map_err(|error| error.to_string())
            }
        }
    };
}

graph_container!(
    Directed,
    DirectedModel,
    "directed graph",
    Shape { weights: true, keeps_loops: true, ..Shape::default() },
    // Undirected graphs work small batches as such.
    Graph::without_small_batches
);
graph_container!(
    Undirected,
    UndirectedModel,
    "undirected graph",
    Shape { undirected: true, ids: true, times: true, ..Shape::default() },
    |graph| graph
);

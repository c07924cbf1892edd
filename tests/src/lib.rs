//! The simulated world: real agents and cloudsim in one process; parity with recorded traffic; house rules

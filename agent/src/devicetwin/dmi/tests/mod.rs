//! DMI against a mapper on a socket of its own.

mod rig;

use std::io::ErrorKind;

use tonic::Code;
use wire::dmi::{
    MapperInfo, MapperRegisterRequest, ReportDeviceStatesRequest, ReportDeviceStatusRequest,
};

use self::rig::{Answer, FakeMapper, Rig, id, report};
use super::socket::Socket;

#[tokio::test]
async fn a_device_before_its_mapper_is_in_the_answer() {
    let rig = Rig::new();
    rig.put_model(1).await;
    rig.put_device("d", 1, "20").await;
    let mut mapper = rig.mapper("modbus");
    let answer = rig.register(&mapper, true).await.unwrap();
    assert_eq!(
        (
            answer.model_list[0].name.as_str(),
            answer.device_list[0].name.as_str()
        ),
        ("m", "d")
    );
    let desired = &answer.device_list[0].spec.as_ref().unwrap().properties[0].desired;
    assert_eq!(
        desired.as_ref().map(|desired| desired.value.as_str()),
        Some("20")
    );
    // what was in the answer is not sent again: the next call is about a later change
    rig.put_device("e", 1, "5").await;
    assert_eq!(mapper.next().await, "register ns/e 5");
    // the device of another protocol belongs to another mapper
    let other = rig.mapper("ble");
    assert_eq!(rig.register(&other, true).await.unwrap().device_list, []);
}

#[tokio::test]
async fn a_silent_crowd_keeps_no_mapper_out() {
    let rig = Rig::new();
    let mut crowd = testkit::silent_unix(&rig.directory().join("dmi.sock"), 400).await;
    testkit::closed(&mut crowd[0]).await;
    rig.put_model(1).await;
    rig.put_device("d", 1, "20").await;
    let answer = rig.register(&rig.mapper("modbus"), true).await.unwrap();
    assert_eq!(answer.device_list[0].name, "d");
}

/// A mapper gives up after ten seconds.
#[tokio::test]
async fn ten_thousand_devices_are_in_the_answer_in_time() {
    const DEVICES: usize = 10_000;
    let rig = Rig::new();
    rig.put_model(1).await;
    for number in 0..DEVICES {
        rig.put_device(&format!("d{number}"), 1, "20").await;
    }
    let mapper = rig.mapper("modbus");
    let begun = clock::Instant::now();
    let answer = rig.register(&mapper, true).await.unwrap();
    assert_eq!(answer.device_list.len(), DEVICES);
    assert!(
        begun.elapsed() < std::time::Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn a_mapper_before_its_devices_gets_them_by_calls() {
    for with_data in [true, false] {
        let rig = Rig::new();
        let mut mapper = rig.mapper("modbus");
        rig.register(&mapper, with_data).await.unwrap();
        rig.put_device("d", 1, "20").await;
        // the model comes later than the device: neither is sent before
        rig.put_model(1).await;
        assert_eq!(mapper.next().await, "create model ns/m");
        assert_eq!(mapper.next().await, "register ns/d 20");
        rig.put_device("d", 2, "25").await;
        assert_eq!(mapper.next().await, "update ns/d 25");
        rig.put_model(2).await;
        assert_eq!(mapper.next().await, "update model ns/m");
        rig.remove_device("d").await;
        assert_eq!(mapper.next().await, "remove ns/d");
        assert_eq!(mapper.next().await, "remove model ns/m");
    }
}

#[tokio::test]
async fn a_mapper_without_data_gets_existing_devices_by_calls() {
    let rig = Rig::new();
    rig.put_model(1).await;
    rig.put_device("d", 1, "20").await;
    let mut mapper = rig.mapper("modbus");
    assert_eq!(rig.register(&mapper, false).await.unwrap().device_list, []);
    assert_eq!(mapper.next().await, "create model ns/m");
    assert_eq!(mapper.next().await, "register ns/d 20");
    assert_eq!(
        rig.dmi()
            .get_device("modbus", &id("d"))
            .await
            .map(|device| device.name),
        Some("d".to_owned())
    );
    assert_eq!(rig.dmi().get_device("ble", &id("d")).await, None);
}

#[tokio::test]
async fn the_registry_survives_a_restart_and_only_changes_are_sent() {
    let mut rig = Rig::new();
    rig.put_model(1).await;
    rig.put_device("d", 1, "20").await;
    rig.put_device("e", 1, "30").await;
    rig.put_device("f", 1, "40").await;
    let mut mapper = rig.mapper("modbus");
    rig.register(&mapper, true).await.unwrap();
    let before = rig.stored_state("d").await;
    rig.put_device("d", 2, "21").await;
    assert_eq!(mapper.next().await, "update ns/d 21");
    rig.until_kept_anew("d", &before).await;
    rig.stop().await;
    rig.remove_device("e").await;
    rig.put_device("f", 2, "41").await;
    rig.start();
    assert_eq!(mapper.next().await, "remove ns/e");
    assert_eq!(mapper.next().await, "update ns/f 41");
    assert_eq!(rig.dmi().mappers()[0].protocol, "modbus");
    assert!(mapper.is_quiet());
}

/// Makes a change that leads to `call`, during which the mapper dies; the call is repeated when the mapper is back. Another
/// mapper gets its own device meanwhile.
async fn dies_in(
    call: &str,
    change: impl Future<Output = ()>,
    rig: &Rig,
    mapper: &mut FakeMapper,
    other: &mut FakeMapper,
    revision: u64,
) {
    mapper.answer(Answer::Never);
    change.await;
    assert_eq!(mapper.next().await, call);
    rig.put_device_of("ble", "other", revision, call).await;
    assert_eq!(other.next().await, format!("update ns/other {call}"));
    mapper.die();
    mapper.live();
    assert_eq!(mapper.next().await, call);
}

#[tokio::test]
async fn a_mapper_that_dies_in_the_middle_of_a_call_is_called_again_and_holds_up_no_other() {
    let rig = Rig::new();
    rig.put_model(1).await;
    rig.put_device_of("ble", "other", 1, "0").await;
    let (mut mapper, mut other) = (rig.mapper("modbus"), rig.mapper("ble"));
    for mapper in [&mapper, &other] {
        rig.register(mapper, true).await.unwrap();
    }
    let (mapper, other) = (&mut mapper, &mut other);
    dies_in(
        "create model ns/m",
        rig.put_device("d", 1, "20"),
        &rig,
        mapper,
        other,
        2,
    )
    .await;
    assert_eq!(mapper.next().await, "register ns/d 20");
    dies_in(
        "register ns/e 5",
        rig.put_device("e", 1, "5"),
        &rig,
        mapper,
        other,
        3,
    )
    .await;
    dies_in(
        "update ns/d 21",
        rig.put_device("d", 2, "21"),
        &rig,
        mapper,
        other,
        4,
    )
    .await;
    dies_in(
        "remove ns/e",
        rig.remove_device("e"),
        &rig,
        mapper,
        other,
        5,
    )
    .await;
    mapper.answer(Answer::Never);
    rig.put_model(2).await;
    assert_eq!(mapper.next().await, "update model ns/m");
    mapper.die();
    mapper.live();
    assert_eq!(mapper.next().await, "update model ns/m");
    rig.remove_device("d").await;
    assert_eq!(mapper.next().await, "remove ns/d");
    assert_eq!(mapper.next().await, "remove model ns/m");
}

#[tokio::test]
async fn a_mapper_that_is_away_when_it_is_changed_gets_all_of_it_when_it_registers() {
    let rig = Rig::new();
    rig.put_model(1).await;
    let mut mapper = rig.mapper("modbus");
    rig.register(&mapper, true).await.unwrap();
    mapper.die();
    rig.put_device("d", 1, "20").await;
    mapper.live();
    let answer = rig.register(&mapper, true).await.unwrap();
    assert_eq!(answer.device_list.len(), 1);
    rig.put_device("d", 2, "21").await;
    // the calls of the earlier registration may have sent the device already
    while mapper.next().await != "update ns/d 21" {}
}

#[tokio::test]
async fn one_device_that_a_mapper_refuses_holds_up_no_other() {
    let rig = Rig::new();
    rig.put_model(1).await;
    let mut mapper = rig.mapper("modbus");
    rig.register(&mapper, true).await.unwrap();
    mapper.answer(Answer::RefuseDevice("bad"));
    rig.put_device("bad", 1, "1").await;
    rig.put_device("good", 1, "2").await;
    mapper.until("register ns/good 2").await;
    // it is repeated until the mapper accepts it
    mapper.answer(Answer::Ok);
    mapper.until("register ns/bad 1").await;
}

#[tokio::test]
async fn reports_reach_device_twin_and_refusals_the_mapper() {
    let rig = Rig::new();
    let mut manager = rig.manager();
    manager
        .report_device_status(report("d", "21.5"))
        .await
        .unwrap();
    let reading = rig.next_report().await;
    assert_eq!(reading, "ns/d t=21.5 at 17 observed 20");
    let state = |state: &str| ReportDeviceStatesRequest {
        device_name: "d".into(),
        device_namespace: "ns".into(),
        state: state.into(),
    };
    manager.report_device_states(state("online")).await.unwrap();
    assert_eq!(rig.next_report().await, "ns/d is online");
    assert_eq!(
        manager
            .report_device_states(state(""))
            .await
            .unwrap_err()
            .code(),
        Code::InvalidArgument
    );
    let refused = manager
        .report_device_status(report("nobody", "1"))
        .await
        .unwrap_err();
    assert_eq!(
        (refused.code(), refused.message()),
        (Code::NotFound, "there is no device ns/nobody")
    );
    let nothing = ReportDeviceStatusRequest::default();
    assert_eq!(
        manager
            .report_device_status(nothing)
            .await
            .unwrap_err()
            .code(),
        Code::InvalidArgument
    );
    let huge = report("d", &"x".repeat(2 * 1024 * 1024));
    assert_eq!(
        manager.report_device_status(huge).await.unwrap_err().code(),
        Code::OutOfRange
    );
    let nobody = MapperRegisterRequest {
        with_data: true,
        mapper: Some(MapperInfo::default()),
    };
    assert_eq!(
        manager.mapper_register(nobody).await.unwrap_err().code(),
        Code::InvalidArgument
    );
}

#[tokio::test]
async fn devices_of_a_mapper_that_has_ended_have_the_state_unknown() {
    let rig = Rig::new();
    rig.put_model(1).await;
    rig.put_device("d", 1, "20").await;
    rig.put_device("off", 1, "20").await;
    rig.put_device_of("ble", "other", 1, "5").await;
    let (mut mapper, other) = (rig.mapper("modbus"), rig.mapper("ble"));
    for mapper in [&mapper, &other] {
        rig.register(mapper, true).await.unwrap();
    }
    let state = |device: &str, state: &str| ReportDeviceStatesRequest {
        device_name: device.into(),
        device_namespace: "ns".into(),
        state: state.into(),
    };
    let mut manager = rig.manager();
    for round in 0..2 {
        for (device, reported) in [("off", "offline"), ("other", "online"), ("d", "online")] {
            manager
                .report_device_states(state(device, reported))
                .await
                .unwrap();
            assert_eq!(
                rig.next_report().await,
                format!("ns/{device} is {reported}"),
                "{round}"
            );
        }
        mapper.die();
        // the mapper of another protocol runs, and an offline device stays offline
        assert_eq!(rig.next_report().await, "ns/d is unknown", "{round}");
        mapper.live();
        rig.register(&mapper, true).await.unwrap();
    }
}

#[tokio::test]
async fn a_socket_that_is_served_is_not_replaced() {
    let rig = Rig::new();
    let again = Socket::bind(&rig.directory().join("dmi.sock")).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AddrInUse);
    let file = rig.directory().join("file");
    std::fs::write(&file, "mine").unwrap();
    assert_eq!(
        Socket::bind(&file).unwrap_err().kind(),
        ErrorKind::AlreadyExists
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    assert_eq!(rig.dmi().mappers(), []);
}

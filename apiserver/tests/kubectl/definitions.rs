//! `kubectl` with definitions of one's own.

use super::world::World;

const CRD: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: cars.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Car, plural: cars, singular: car, shortNames: [cr]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.wheels, statusReplicasPath: .status.wheels}
    additionalPrinterColumns:
    - {name: Wheels, type: integer, jsonPath: .spec.wheels}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              wheels: {type: integer, minimum: 3, description: How many it stands on.}
          status: {type: object, properties: {wheels: {type: integer}}}
";

const CAR: &str = "
apiVersion: example.org/v1
kind: Car
metadata: {name: small}
spec: {wheels: 3}
";

async fn expect(world: &World, rows: &[(&str, &str, &str)]) {
    for (line, input, expected) in rows {
        assert_eq!(
            world.run(line, input).await.trim_end(),
            *expected,
            "kubectl {line}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_come_and_go_with_their_definitions() {
    let world = World::new().await;
    let crd = "customresourcedefinition.apiextensions.k8s.io/cars.example.org";
    let wait = "wait --for=condition=established crd/cars.example.org --timeout=60s";
    let larger = CAR.replace("wheels: 3", "wheels: 4");
    expect(
        &world,
        &[
            ("apply -f -", CRD, &format!("{crd} created")),
            (wait, "", &format!("{crd} condition met")),
            ("apply -f -", CRD, &format!("{crd} unchanged")),
            ("apply -f -", CAR, "car.example.org/small created"),
            ("apply -f -", &larger, "car.example.org/small configured"),
            ("get cr -o name", "", "car.example.org/small"),
            ("scale car small --replicas=5", "", "car.example.org/small scaled"),
            ("get car small -o jsonpath={.spec.wheels}", "", "5"),
            ("get crd -o name", "", "customresourcedefinition.apiextensions.k8s.io/cars.example.org\ncustomresourcedefinition.apiextensions.k8s.io/widgets.example.com"),
        ],
    )
    .await;
    let table = world.kubectl("get cars").await;
    let words: Vec<_> = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .collect();
    assert_eq!(words, [["NAME", "WHEELS"], ["small", "5"]]);
    let explained = world.kubectl("explain car.spec.wheels").await;
    assert!(explained.contains("How many it stands on."), "{explained}");
    let refused = world
        .fail("apply -f -", &CAR.replace("wheels: 3", "wheels: 2"))
        .await;
    assert!(
        refused.contains("spec.wheels in body should be greater than or equal to 3"),
        "{refused}"
    );
    let refused = world
        .fail(
            "apply -f -",
            &CAR.replace("wheels: 3", "wheels: 3, seats: 1"),
        )
        .await;
    assert!(
        refused.contains("unknown field \"spec.seats\""),
        "{refused}"
    );
    let line = "delete crd cars.example.org";
    let gone = "customresourcedefinition.apiextensions.k8s.io \"cars.example.org\" deleted";
    assert_eq!(world.kubectl(line).await.trim_end(), gone);
    let unknown = world.fail("get cars", "").await;
    assert!(
        unknown.contains("the server could not find the requested resource"),
        "{unknown}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_a_node_is_told_as_missing() {
    let world = World::new().await;
    expect(&world, &[("run web --image=nginx", "", "pod/web created")]).await;
    for line in ["logs web", "exec web -- ls", "attach web"] {
        let said = world.fail(line, "").await;
        assert!(
            said.contains("EdgeStream") || said.contains("is not available"),
            "kubectl {line}: {said}"
        );
    }
}

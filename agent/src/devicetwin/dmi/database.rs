//! Converts the settings of the databases that mappers write to. Pure.

use crds::devices::DbMethod;
use wire::dmi;

/// Converts the settings of a database.
pub(super) fn method(method: &DbMethod) -> dmi::DbMethod {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    // numbers of connections and of databases: a number that does not fit is invalid
    let number = |number: Option<i64>| {
        number
            .and_then(|number| number.try_into().ok())
            .unwrap_or_default()
    };
    let influx = method
        .influxdb2
        .as_ref()
        .map(|influx| dmi::DbMethodInfluxdb2 {
            influxdb2_client_config: influx.client.as_ref().map(|client| {
                dmi::Influxdb2ClientConfig {
                    url: text(&client.url),
                    org: text(&client.org),
                    bucket: text(&client.bucket),
                }
            }),
            influxdb2_data_config: influx.data.as_ref().map(|data| dmi::Influxdb2DataConfig {
                measurement: text(&data.measurement),
                tag: data.tag.clone(),
                field_key: text(&data.field_key),
            }),
        });
    dmi::DbMethod {
        influxdb2: influx,
        redis: method.redis.as_ref().map(|redis| dmi::DbMethodRedis {
            redis_client_config: redis.client.as_ref().map(|client| dmi::RedisClientConfig {
                addr: text(&client.addr),
                db: number(client.db),
                poolsize: number(client.poolsize),
                min_idle_conns: number(client.min_idle_conns),
            }),
        }),
        tdengine: method
            .tdengine
            .as_ref()
            .map(|tdengine| dmi::DbMethodTdEngine {
                td_engine_client_config: tdengine.client.as_ref().map(|client| {
                    dmi::TdEngineClientConfig {
                        addr: text(&client.addr),
                        dbname: text(&client.db_name),
                    }
                }),
            }),
        mysql: method.mysql.as_ref().map(|mysql| dmi::DbMethodMySql {
            mysql_client_config: mysql.client.as_ref().map(|client| dmi::MySqlClientConfig {
                addr: text(&client.addr),
                database: text(&client.database),
                user_name: text(&client.user_name),
            }),
        }),
    }
}

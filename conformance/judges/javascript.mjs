// Runs the official JavaScript client against a cluster, in the folder of its repository: its integration tests and its examples, each in a
// process of its own, and the calls of its generated classes that list objects or read discovery.

import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { basename, dirname, extname } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import * as k8s from '@kubernetes/client-node';

// How long one test or example may take, milliseconds.
const LIMIT = 90_000;
const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);

// What is special about examples, by name: `until` is the output after which an endless one is stopped, `shows` that of any other;
// `port` is a local one that must answer an HTTP request; `free` is a namespace that may not exist before; `quota` is deleted afterwards.
const SPECIAL = {
    'in-cluster': { skip: 'it runs in a pod only' },
    'in-cluster-create-job-from-cronjob': { skip: 'it runs in a pod only' },
    'apply-from-file-example': { skip: 'it only defines a function' },
    'cache-example': { until: /pod1/ },
    'follow-logs': { shows: /started/ },
    'port-forward-deployment': { port: 8080 },
    'port-forward-service': { port: 8080 },
    'port-forward': { port: 8080 },
    'raw-example': { shows: /statusCode: 200/ },
    'attach-example': { until: /tick/ },
    'exec-example': { arguments: ['hostname'], until: /"status": "Success"/ },
    'informer-with-label-selector': { until: /Deleted: server-foo/ },
    informer: { until: /Added: pod1/ },
    'watch-example': { shows: /new object:/ },
    'patch-example': { shows: /Patched/ },
    'namespace-create-yaml': { free: 'test' },
    'namespace-create': { free: 'test' },
    namespace: { free: 'test', shows: /Created namespace/ },
    'yaml-example': { free: 'test', shows: /Created namespace/ },
    create: { free: 'test' },
    'resourceQuota-create': { quota: 'my-quota', shows: /Created quota/ },
};
// These come first, in this order: each needs what those before it have left.
const FIRST = ['create', 'get', 'delete'];

function report(outcome, name, message = '') {
    console.log(`${outcome} ${name} :: ${String(message).replaceAll(/\s+/g, ' ').trim().slice(0, 300)}`);
}

async function attempt(name, action) {
    try {
        await action();
        report('PASSED', name);
    } catch (error) {
        report('FAILED', name, error?.stack ?? error);
    }
}

// Runs a program of the client; resolves if it ends without an error, or has written `until`.
function run(file, words, { until, shows, port }) {
    const options = { cwd: dirname(file), stdio: ['pipe', 'pipe', 'pipe'], env: { ...process.env, NODE_NO_WARNINGS: '1' } };
    const child = spawn(process.execPath, ['--import', import.meta.resolve('tsx'), basename(file), ...words], options);
    let [output, errors, isOver] = ['', '', false];
    return new Promise((resolve, reject) => {
        const finish = (error) => {
            isOver = true;
            clearTimeout(timer);
            child.kill('SIGKILL');
            error ? reject(`${error}: ${errors || output}`) : resolve();
        };
        const timer = setTimeout(() => finish('it did not end in time'), LIMIT);
        child.stdout.on('data', (data) => {
            output += data;
            if (until?.test(output)) finish();
        });
        child.stderr.on('data', (data) => (errors += data));
        child.on('close', (code) => {
            if (isOver) return;
            if (code !== 0 || errors) finish(`it ended with ${code}`);
            else if (until || port || !(shows?.test(output) ?? true)) finish('its output is another');
            else finish();
        });
        if (port) poll(port, () => isOver).then(() => finish(), finish);
    });
}

// Asks a forwarded port until it answers.
async function poll(port, isOver) {
    while (!isOver()) {
        const answer = await new Promise((resolve) => {
            const socket = connect(port, '127.0.0.1', () => socket.write('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'));
            socket.setTimeout(5000, () => socket.destroy());
            socket.on('data', (data) => resolve(String(data)));
            socket.on('error', () => resolve(''));
            socket.on('close', () => resolve(''));
        });
        if (answer.startsWith('HTTP/1.1 200')) return;
        await pause(200);
    }
}

// Deletes a namespace, and waits until it no longer exists.
async function remove(name) {
    for (let until = Date.now() + LIMIT; Date.now() < until; await pause(200)) {
        try {
            const found = await core.readNamespace({ name });
            if (!found.metadata.deletionTimestamp) await core.deleteNamespace({ name });
        } catch (error) {
            if (error.code === 404) return;
            throw error;
        }
    }
    throw new Error(`namespace ${name} still exists`);
}

function files(folder) {
    const found = readdirSync(folder, { recursive: true }).filter((name) => ['.js', '.ts'].includes(extname(name)) && !name.endsWith('.d.ts'));
    const rank = (name) => (FIRST.indexOf(basename(name, '.js')) + FIRST.length + 1) % (FIRST.length + 1);
    return found.sort().sort((one, two) => rank(one) - rank(two));
}

async function runExamples() {
    for (const name of files('examples')) {
        const special = SPECIAL[basename(name, extname(name))] ?? {};
        if (special.skip) report('SKIPPED', `examples/${name}`, special.skip);
        else {
            if (special.free) await remove(special.free);
            await attempt(`examples/${name}`, () => run(`examples/${name}`, special.arguments ?? [], special));
            if (special.quota) await core.deleteNamespacedResourceQuota({ name: special.quota, namespace: 'default' });
        }
    }
}

async function runTests() {
    // the tests import the client's files by their paths
    mkdirSync('src', { recursive: true });
    for (const name of ['index', 'watch', 'cache', 'cp', 'portforward']) {
        writeFileSync(`src/${name}.js`, "export * from '@kubernetes/client-node';\n");
    }
    const folder = 'src/test/integration';
    for (const name of files(folder).filter((name) => !['index.ts', 'helpers.ts', 'name.ts'].includes(name))) {
        const runner = `${folder}/${basename(name, '.ts')}.run.mjs`;
        writeFileSync(runner, `import test from './${name}';\nawait test();\n`);
        await attempt(`integration/${basename(name, '.ts')}`, () => run(runner, [], {}));
    }
}

// Reports whether the cluster has the group, or the version, of generated calls.
async function isServed(api) {
    try {
        await (api.getAPIResources ?? api.getAPIGroup).call(api, {});
        return true;
    } catch (error) {
        if (error.code === 404) return false;
        throw error;
    }
}

async function runCalls() {
    const custom = (group, version, plural) => ({ group, version, plural, resourcePlural: plural, namespace: 'default', name: 'judged' });
    const [namespaced, global] = [custom('devices.kubeedge.io', 'v1beta1', 'devicemodels'), custom('apps.kubeedge.io', 'v1alpha1', 'nodegroups')];
    for (const type of Object.keys(k8s).filter((name) => name.endsWith('Api') && name !== 'KubernetesObjectApi')) {
        const api = config.makeApiClient(k8s[type]);
        const all = Object.getOwnPropertyNames(Object.getPrototypeOf(api));
        const names = all.filter((name) => /^(list|get)/.test(name) && !name.endsWith('WithHttpInfo') && !/Custom.*(Scale|Status)$/.test(name));
        if (/(V\d+(alpha|beta)\d+|InternalApiserver|Storagemigration)Api$/.test(type) && !(await isServed(api))) {
            for (const name of names) report('SKIPPED', `calls/${type}.${name}`, 'kube-apiserver 1.36 does not serve it by default, either');
            continue;
        }
        for (const name of names) {
            await attempt(`calls/${type}.${name}`, async () => {
                const answer = await api[name](name.includes('Cluster') ? global : namespaced);
                if (answer === undefined) throw new Error('no answer');
            });
        }
    }
}

if (!existsSync('examples')) throw new Error('run it in the folder of the repository');
// as in the repository's own file, which is not here
for (const folder of ['examples', 'src']) writeFileSync(`${folder}/package.json`, '{"type": "module"}\n');
await runCalls();
await runTests();
await runExamples();
process.exit(0);

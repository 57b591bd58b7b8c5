// Types removed from one file, without a check of them. Usage: node compile_ts.cjs MODULES FILE; prints it.
const ts = require(`${process.argv[2]}/typescript`);
const text = require('node:fs').readFileSync(process.argv[3], 'utf8');
const compilerOptions = { module: 'commonjs', target: 'es2022', experimentalDecorators: true, emitDecoratorMetadata: true, useDefineForClassFields: false };
process.stdout.write(ts.transpileModule(text, { compilerOptions }).outputText);

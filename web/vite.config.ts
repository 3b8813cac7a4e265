import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import react from '@vitejs/plugin-react'
import type { Plugin } from 'vite'
import { defineConfig } from 'vitest/config'

// The console sends files as they lie here, so that it never compresses one itself.
function compressed(): Plugin {
  return {
    name: 'compressed',
    apply: 'build',
    closeBundle() {
      for (const dir of ['dist', 'dist/assets']) {
        for (const name of readdirSync(dir)) {
          if (!/\.(html|js|css|svg)$/.test(name)) continue
          const data = readFileSync(join(dir, name))
          writeFileSync(join(dir, `${name}.gz`), gzipSync(data, { level: 9 }))
          const quality = { [constants.BROTLI_PARAM_QUALITY]: 11 }
          writeFileSync(join(dir, `${name}.br`), brotliCompressSync(data, { params: quality }))
        }
      }
      writeFileSync(join('dist', '.gitkeep'), '')
    },
  }
}

export default defineConfig({
  plugins: [react(), compressed()],
  build: {
    chunkSizeWarningLimit: 700,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: 'es2022',
  },
  // A slow machine is no failure: what hangs is ended all the same.
  test: { testTimeout: 300_000, hookTimeout: 300_000 },
  server: { proxy: { '/v1': proxied(), '/fairlead.': proxied() } },
})

// `FAIRLEAD_CONSOLE=https://127.0.0.1:7400 npm run dev` shows the pages over a running hub while they are written.
function proxied() {
  return { target: process.env.FAIRLEAD_CONSOLE ?? 'https://127.0.0.1:7400', secure: false }
}
